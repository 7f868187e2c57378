import type { Role } from "../../core/engine-kind.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { PlanWarning } from "../../core/launch-plan.ts";
import { arg } from "../args.ts";
import type { OffloadCell } from "../engine.ts";
import { type Connector, dynamo, lmcache, multi, NIXL_ROLE, nixl, onFailure, pd } from "./vllm-connectors.ts";
import { joinParts, type PlanPart, type VllmLaunch } from "./vllm-context.ts";
import { KVBM_PACKAGE, KVBM_RETIRING, kvbmPart } from "./vllm-kvbm.ts";
import { lmcachePart } from "./vllm-lmcache.ts";
import { nixlPart } from "./vllm-nixl.ts";

const KV_BOTH_DEPRECATED: PlanWarning = {
  code: "nixl-kv-both-deprecated",
  message: 'vLLM logs that kv_role "kv_both" of NixlConnector is deprecated (vllm-project/vllm#43874)',
  remedy: "Nothing, when the worker may take either part; else set the role to prefill or decode",
};

const PD_DECODE_KV_BOTH: PlanWarning = {
  ...KV_BOTH_DEPRECATED,
  remedy: "Nothing: the decode side of PdConnector is this one",
};

/** What one cell of the dial renders. */
interface Rendered {
  readonly connector?: Connector;
  /** Turn vLLM's hybrid KV cache manager off, and why. */
  readonly noHybrid?: string;
  readonly parts: readonly PlanPart[];
}

const NO_HYBRID_PD =
  "PdConnector's children do not support the hybrid KV cache manager, and both sides of a hand-over must agree on it";
const NO_HYBRID_KVBM = "DynamoConnector does not support the hybrid KV cache manager, and both sides must agree on it";

/** What vLLM makes of each place of the dial. */
export function vllmCell(offload: KvOffload, role: Role): OffloadCell {
  if (offload === "hicache") {
    const choices = role === "both" ? "none, nixl, lmcache or kvbm" : "nixl, lmcache or kvbm";
    const reason = `HiCache is SGLang's hierarchical cache; vLLM has none of that name. Choose ${choices}`;
    return { supported: false, reason };
  }
  if (offload === "none" && role !== "both") {
    const part = role === "prefill" ? "hand its KV over" : "receive KV";
    const reason = `A vLLM ${role} engine with kv_offload "none" has no connector to ${part}. Choose nixl (enough for the hand-over), lmcache or kvbm`;
    return { supported: false, reason };
  }
  return { supported: true, notes: NOTES[offload][role] };
}

/** The whole dial: flags, environment, ports and servers of an engine's cell. */
export function offloadPart(launch: VllmLaunch): PlanPart {
  const { connector, noHybrid, parts } = render(launch);
  return joinParts([
    ...parts,
    {
      args: [
        ...arg(
          "--kv-transfer-config",
          connector === undefined ? undefined : JSON.stringify(connector),
          `kv_offload "${launch.input.offload}", role "${launch.input.role}"`,
          "vllm/config/kv_transfer.py; config and connector factory of vLLM 0.32.0 and 0.33.0 accept it",
        ),
        ...arg(
          ["--disable-hybrid-kv-cache-manager", "--no-disable-hybrid-kv-cache-manager"],
          noHybrid === undefined ? undefined : true,
          noHybrid ?? "",
          "vLLM 0.32.0: engine start asserts it",
        ),
      ],
    },
  ]);
}

/** A prefill that is lost on its way is computed again by decode, and costs time instead of the request. */
const ON_FAILURE: Readonly<Record<Role, "fail" | "recompute">> = {
  both: "recompute",
  prefill: "fail",
  decode: "recompute",
};

function render(launch: VllmLaunch): Rendered {
  switch (launch.input.offload) {
    case "nixl":
      return renderNixl(launch);
    case "lmcache":
      return launch.input.options.lmcache.wrapper === "pd_connector" ? renderPdLmcache(launch) : renderLmcache(launch);
    case "kvbm":
      return renderKvbm(launch);
    default:
      return { parts: [] };
  }
}

function renderNixl(launch: VllmLaunch): Rendered {
  const { role } = launch.input;
  const connector = onFailure(ON_FAILURE[role], nixl(launch, NIXL_ROLE[role]));
  return { connector, parts: [nixlPart(launch), { warnings: role === "both" ? [KV_BOTH_DEPRECATED] : [] }] };
}

function renderLmcache(launch: VllmLaunch): Rendered {
  const { role } = launch.input;
  if (role === "both") return { connector: lmcache(launch), parts: [lmcachePart(launch)] };
  // On decode LMCache only reads. One that stores there goes wrong when a prefill is lost (vLLM 0.32.0 with LMCache 0.5.6, two
  // engines run): with "recompute" it keeps the failed load's freed blocks as the prompt's KV, and whoever gets them back answers
  // with wrong text; with "fail" the engine ends.
  const cache = lmcache(launch, role === "decode" ? "kv_consumer" : "kv_both");
  const connector = onFailure(ON_FAILURE[role], multi(NIXL_ROLE[role], [nixl(launch, NIXL_ROLE[role]), cache]));
  return { connector, parts: [nixlPart(launch), lmcachePart(launch)] };
}

function renderPdLmcache(launch: VllmLaunch): Rendered {
  const { role } = launch.input;
  if (role === "both") return { connector: lmcache(launch), parts: [lmcachePart(launch)] };
  if (role === "decode") return renderPdDecode(launch, NO_HYBRID_PD);
  return {
    connector: onFailure("fail", pd(lmcache(launch), nixl(launch, "kv_both"))),
    noHybrid: NO_HYBRID_PD,
    parts: [nixlPart(launch), lmcachePart(launch), { requires: [KVBM_PACKAGE] }],
  };
}

function renderKvbm(launch: VllmLaunch): Rendered {
  const { role } = launch.input;
  const retiring = { warnings: [KVBM_RETIRING] };
  if (role === "decode") {
    const decode = renderPdDecode(launch, NO_HYBRID_KVBM);
    return { ...decode, parts: [...decode.parts, retiring] };
  }
  if (role === "both") {
    return { connector: dynamo(), noHybrid: NO_HYBRID_KVBM, parts: [kvbmPart(launch), retiring] };
  }
  return {
    connector: onFailure("fail", pd(dynamo(), nixl(launch, "kv_both"))),
    noHybrid: NO_HYBRID_KVBM,
    parts: [nixlPart(launch), kvbmPart(launch), retiring],
  };
}

/** Opposite a PdConnector stands plain NIXL: PdConnector on both sides answers, and transfers nothing (seen on vLLM 0.32.0). */
function renderPdDecode(launch: VllmLaunch, noHybrid: string): Rendered {
  const connector = onFailure("recompute", nixl(launch, "kv_both"));
  return { connector, noHybrid, parts: [nixlPart(launch), { warnings: [PD_DECODE_KV_BOTH] }] };
}

type Notes = Readonly<Record<Role, readonly string[]>>;

const PAIR = "Both sides need the same vLLM version, model string, dtype and block size, or the NIXL handshake refuses";
const LMCACHE_PAIR =
  'With wrapper = "pd_connector" the prefill side is PdConnector[LMCacheConnectorV1, NixlConnector] of the kvbm package and the decode side plain NixlConnector, both without the hybrid KV cache manager';
const RECOMPUTES = "A lost prefill is computed again instead of failing the request";
const LMCACHE_READS =
  "LMCache only reads on decode: with stores there a lost prefill would leave it KV that is wrong. What decode pulls is kept on the prefill side";
const KVBM_PIP = "pip install kvbm replaces nixl by the version it pins (1.6.1: nixl 1.3.2)";

const NOTES: Readonly<Record<Exclude<KvOffload, "hicache">, Notes>> = {
  none: { both: ["No connector: KV stays in the engine"], prefill: [], decode: [] },
  nixl: {
    both: ["Useful only for a worker that may take either part; vLLM logs that kv_both is deprecated"],
    prefill: [PAIR],
    decode: [PAIR, RECOMPUTES],
  },
  lmcache: {
    both: ['mode = "mp" renders LMCacheMPConnector and runs an `lmcache server` beside the engine'],
    prefill: [PAIR, LMCACHE_PAIR],
    decode: [PAIR, LMCACHE_PAIR, LMCACHE_READS, RECOMPUTES],
  },
  kvbm: {
    both: [
      KVBM_RETIRING.message,
      KVBM_PIP,
      "Needs a cache size in [engine.vllm.kvbm]; 16 GiB of CPU memory without one",
    ],
    prefill: [KVBM_RETIRING.message, KVBM_PIP, PAIR],
    decode: [KVBM_RETIRING.message, PAIR, "Plain NIXL: PdConnector works on the prefill side only"],
  },
};
