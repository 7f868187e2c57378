import { pairFindings } from "../config/checks/pairs.ts";
import type { Finding } from "../core/findings.ts";
import type { WorkerInfo } from "../core/worker.ts";

/** A prefill worker and the decode workers that can take over from it. */
export interface Pairing {
  readonly prefill: WorkerInfo;
  readonly decodes: readonly WorkerInfo[];
}

/** The workers of one model by what they can do. */
export interface Parts {
  /** Role `both`. */
  readonly whole: readonly WorkerInfo[];
  readonly pairings: readonly Pairing[];
  /** Decode workers that also answer whole requests. */
  readonly decodeWhole: readonly WorkerInfo[];
  /** The same of prefill workers. */
  readonly prefillWhole: readonly WorkerInfo[];
  /** Why a prefill or decode worker has nobody to work with, by id. */
  readonly unpaired: ReadonlyMap<string, string>;
  /** What may still go wrong between a decode worker and one that it works with, by the decode worker's id. */
  readonly cautions: ReadonlyMap<string, string>;
}

/**
 * Why these two cannot hand over KV to each other, for people; undefined: they can. What an engine does not tell (one that somebody
 * else started) is taken to agree.
 */
export function mismatch(prefill: WorkerInfo, decode: WorkerInfo): string | undefined {
  const [p, d] = [prefill.handOver, decode.handOver];
  if (p === undefined || d === undefined) return "one of them does not say how it hands over";
  if (prefill.kind !== decode.kind) return `the kind is ${prefill.kind} and ${decode.kind}`;
  if (p.protocol !== d.protocol) return `the hand-over is ${p.protocol} and ${d.protocol}`;
  if (p.group !== d.group) return `the group is ${p.group ?? "none"} and ${d.group ?? "none"}`;
  if (p.protocol === "push" && (p.engineId === undefined || p.host === undefined || p.port === undefined)) {
    return `${prefill.id} pushes, and says neither engine_id nor side channel: write engine_id in its --kv-transfer-config`;
  }
  return findingsOf(prefill, decode).find(({ severity }) => severity === "error")?.what;
}

/** In what these two differ although they can hand over KV to each other; undefined: in nothing that matters. */
function caution(prefill: WorkerInfo, decode: WorkerInfo): string | undefined {
  const said = findingsOf(prefill, decode).flatMap(({ severity, what }) => (severity === "warning" ? [what] : []));
  return said.length === 0 ? undefined : said.join("; ");
}

function findingsOf(prefill: WorkerInfo, decode: WorkerInfo): Finding[] {
  if (prefill.handOver?.peering === undefined || decode.handOver?.peering === undefined) return [];
  const engine = (worker: WorkerInfo, role: "prefill" | "decode", file: number) => ({
    name: worker.id,
    role,
    model: "",
    peering: worker.handOver!.peering!,
    file,
    spansHosts: false,
  });
  const findings = pairFindings([engine(prefill, "prefill", 0), engine(decode, "decode", 1)], 2);
  return findings.map(({ finding }) => finding);
}

/** Sort the workers of a model that take requests now. */
export function partsOf(workers: readonly WorkerInfo[]): Parts {
  const of = (role: WorkerInfo["role"]): WorkerInfo[] => workers.filter((worker) => worker.role === role);
  const [whole, prefills, decodes] = [of("both"), of("prefill"), of("decode")];
  const unpaired = new Map<string, string>();
  const pairings = prefills.map((prefill) => ({
    prefill,
    decodes: decodes.filter((decode) => mismatch(prefill, decode) === undefined),
  }));
  const why = (worker: WorkerInfo, others: readonly WorkerInfo[], other: string): string =>
    others.length === 0
      ? `no ${other} engine of its model is ready`
      : `no ${other} engine goes with it: ${others.map((each) => `${each.id}: ${whyNotPair(worker, each)}`).join("; ")}`;
  for (const { prefill, decodes: own } of pairings) {
    if (own.length === 0) unpaired.set(prefill.id, why(prefill, decodes, "decode"));
  }
  for (const decode of decodes) {
    if (!pairings.some((pairing) => pairing.decodes.includes(decode))) {
      unpaired.set(decode.id, why(decode, prefills, "prefill"));
    }
  }
  const cautions = new Map<string, string>();
  for (const { prefill, decodes: own } of pairings) {
    for (const decode of own) {
      const said = caution(prefill, decode);
      if (said !== undefined && !cautions.has(decode.id)) cautions.set(decode.id, said);
    }
  }
  const servesWhole = (worker: WorkerInfo): boolean => worker.traits.servesWhole === true;
  return {
    whole,
    pairings: pairings.filter((pairing) => pairing.decodes.length > 0),
    decodeWhole: decodes.filter(servesWhole),
    prefillWhole: prefills.filter(servesWhole),
    unpaired,
    cautions,
  };
}

function whyNotPair(a: WorkerInfo, b: WorkerInfo): string | undefined {
  return a.role === "prefill" ? mismatch(a, b) : mismatch(b, a);
}

const known = new WeakMap<readonly WorkerInfo[], Parts>();

/** The same, remembered for a list that never changes (a fleet's group). */
export function partsOfGroup(ready: readonly WorkerInfo[]): Parts {
  let parts = known.get(ready);
  if (parts === undefined) known.set(ready, (parts = partsOf(ready)));
  return parts;
}
