import type { Finding } from "../../core/findings.ts";
import type { Peering } from "../../core/host-needs.ts";
import { compareVersions } from "../../core/version.ts";
import { isLoopbackHost, isWildcardHost } from "../../engines/address.ts";

/** An engine that takes one part of a request. */
export interface PairEngine {
  /** For messages. */
  readonly name: string;
  readonly role: "prefill" | "decode";
  /** The name that clients use, and the group: engines with the same one work together. */
  readonly model: string;
  readonly group?: string;
  readonly peering: Peering;
  /** Which file it is of. */
  readonly file: number;
  /** Does the file's cluster span hosts by its nature (`state_backend` etcd or static)? */
  readonly spansHosts: boolean;
}

export interface PairFinding {
  /** Index in the engines that were given. */
  readonly engine: number;
  readonly finding: Finding;
}

/**
 * What does not agree between prefill and decode engines of one model, and addresses at which they do not find each other. Pure.
 *
 * @param files how many files were read: with more than one, all that work together are taken to be there
 */
export function pairFindings(engines: readonly PairEngine[], files: number): PairFinding[] {
  const found: PairFinding[] = [];
  for (const [n, engine] of engines.entries()) {
    const partners = engines.filter((other) => areOneModel(engine, other) && other.role !== engine.role);
    found.push(...addressFindings(engine, partners).map((finding) => ({ engine: n, finding })));
    if (partners.length === 0 && files > 1) found.push({ engine: n, finding: withoutPartner(engine) });
    if (engine.role !== "decode") continue;
    const compared = partners.map((prefill) => compare(prefill, engine));
    // Of several prefill engines the first that differs tells enough.
    const first = compared.find((list) => list.length > 0) ?? [];
    found.push(...first.map((finding) => ({ engine: n, finding })));
  }
  return found;
}

const areOneModel = (a: PairEngine, b: PairEngine): boolean => a.model === b.model && a.group === b.group;

function withoutPartner({ role, model }: PairEngine): Finding {
  const other = role === "prefill" ? "decode" : "prefill";
  return {
    code: "pair-engine",
    severity: "error",
    what: `no file has a ${other} engine for "${model}", so this ${role} engine has nobody to work with`,
    remedy: `Add one with role = "${other}" and the same model name and group, or name its file too`,
    keys: ["engine.role", "agent.role", "engine"],
  };
}

function compare(prefill: PairEngine, decode: PairEngine): Finding[] {
  const [p, d] = [prefill.peering, decode.peering];
  const key = `models.${JSON.stringify(decode.model)}`;
  const differ = (a: unknown, b: unknown): string => `is ${a} on the prefill engine ${prefill.name} and ${b} here`;
  if (p.family !== d.family) {
    const what = `the kind ${differ(p.family, d.family)}: they cannot hand over KV to each other`;
    return [error("pair-engine", what, "Use one kind for both", ["engine.kind"])];
  }
  const found: Finding[] = [];
  if (p.transfer !== d.transfer) {
    const what = `the hand-over ${differ(p.transfer, d.transfer)}`;
    found.push(error("pair-engine", what, "Write the same kv_offload for both", ["engine.kv_offload"]));
  }
  if (p.model !== d.model) {
    const what = `what is loaded ${differ(`"${p.model}"`, `"${d.model}"`)}, and the hand-over compares these texts`;
    found.push(
      error("pair-model", what, "Write the same path or hf_repo for both", [`${key}.path`, `${key}.hf_repo`, key]),
    );
  }
  if (p.dtype !== d.dtype) {
    found.push(
      error("pair-model", `dtype ${differ(p.dtype, d.dtype)}`, "Write the same dtype for both", [`${key}.dtype`, key]),
    );
  }
  return [...found, ...blockFindings(p, d, differ), ...tpFindings(p, d, key, differ), ...seedAndVersion(p, d, differ)];
}

type Differ = (a: unknown, b: unknown) => string;

function blockFindings(p: Peering, d: Peering, differ: Differ): Finding[] {
  if (p.blockTokens === d.blockTokens) return [];
  const keys = ["kv.block_size_tokens", "engine"];
  const remedy = "Write the same [kv].block_size_tokens for both";
  if (d.largerDecodeBlocks && d.blockTokens > p.blockTokens && d.blockTokens % p.blockTokens === 0) {
    const what = `the block size ${differ(p.blockTokens, d.blockTokens)}: it works for models without sliding windows or states only`;
    return [{ code: "pair-block-size", severity: "warning", what, remedy, keys }];
  }
  return [error("pair-block-size", `the block size ${differ(p.blockTokens, d.blockTokens)}`, remedy, keys)];
}

function tpFindings(p: Peering, d: Peering, key: string, differ: Differ): Finding[] {
  if (p.tp === d.tp) return [];
  const severity = d.otherTp ? "warning" : "error";
  const why = d.otherTp ? "it fails with some models and more ranks here than there" : "it fails at the first request";
  const what = `tp ${differ(p.tp, d.tp)}: ${why}`;
  return [{ code: "pair-tp", severity, what, remedy: "Write the same tp for both", keys: [`${key}.tp`, key] }];
}

function seedAndVersion(p: Peering, d: Peering, differ: Differ): Finding[] {
  const found: Finding[] = [];
  if (p.hashSeed !== undefined && d.hashSeed !== undefined && p.hashSeed !== d.hashSeed) {
    const what = `PYTHONHASHSEED ${differ(p.hashSeed, d.hashSeed)}, so their blocks have different names`;
    found.push(error("hash-seed", what, "Start both with PYTHONHASHSEED=0", ["agent.vllm_cmd", "engine"]));
  }
  if (p.version !== undefined && d.version !== undefined && compareVersions(p.version, d.version) !== 0) {
    const what = `the version ${differ(p.version, d.version)}`;
    const remedy = "Install the same version for both";
    const keys = ["engine"];
    found.push({ code: "pair-version", severity: d.sameVersion ? "error" : "warning", what, remedy, keys });
  }
  return found;
}

function error(code: Finding["code"], what: string, remedy: string, keys: readonly string[]): Finding {
  return { code, severity: "error", what, remedy, keys };
}

const ADDRESS_KEYS = ["agent.peer_address", "agent.listen", "engine.url"];
const ADDRESS_REMEDY = "Set [agent].peer_address to an address of this host that the other engine reaches";

function addressFindings(engine: PairEngine, partners: readonly PairEngine[]): Finding[] {
  const { address } = engine.peering;
  const find = (severity: "error" | "warning", what: string): Finding[] => [
    { code: "peer-address", severity, what, remedy: ADDRESS_REMEDY, keys: ADDRESS_KEYS },
  ];
  if (isWildcardHost(address)) return find("error", `"${address}" is no address that a peer can dial`);
  if (!isLoopbackHost(address)) return [];
  const far = partners.find((other) => other.file !== engine.file && !isLoopbackHost(other.peering.address));
  if (far !== undefined) {
    const what = `peers are told to dial ${address}, which is their own host, and ${far.name} is at ${far.peering.address}`;
    return find("error", what);
  }
  if (partners.some((other) => other.file === engine.file)) return [];
  if (engine.spansHosts) return find("error", `peers are told to dial ${address}, and this cluster spans hosts`);
  const where = partners.length > 0 ? "in another file" : "not in this file";
  return find(
    "warning",
    `peers are told to dial ${address}, and the ${engine.role === "prefill" ? "decode" : "prefill"} engine is ${where}: that works on one host only`,
  );
}
