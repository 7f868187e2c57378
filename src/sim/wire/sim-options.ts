import type { EngineLimits } from "../model/engine-model.ts";
import type { EngineProfile } from "../model/profile.ts";
import type { Fault } from "./faults.ts";
import type { KvEncoding } from "./kv-encode.ts";
import type { KvEndpoints } from "./kv-publisher.ts";
import type { BootstrapOptions } from "./sglang-transfer.ts";
import type { NixlOptions } from "./vllm-transfer.ts";

/** The engine versions that are simulated: what they answer and how they parse was recorded from these. */
export const SIMULATED_VERSIONS = { vllm: "0.32.0", sglang: "0.5.23", llama_cpp: "b0-unknown" } as const;

export type SimKind = keyof typeof SIMULATED_VERSIONS;

/** What only llama-server has. */
export interface LlamaOptions {
  /** How often an idle stream is pinged, which is when a stopping server notices it; negative: never. */
  readonly pingMs: number;
  readonly slotsEndpoint: boolean;
  readonly propsEndpoint: boolean;
  readonly slotSavePath?: string;
}

/** Everything that decides how a simulated engine behaves. Made from an engine's own command line, or from `cgn sim`'s flags. */
export interface SimOptions {
  readonly kind: SimKind;
  /** The version it claims to be. */
  readonly version: string;
  readonly host: string;
  /** 0: the system chooses. */
  readonly port: number;
  /** Served names; answers carry the first. */
  readonly models: readonly [string, ...string[]];
  /** Adapters that requests may name as their model (vLLM, `--lora-modules`). */
  readonly loras?: readonly string[];
  /** What it was told to load. */
  readonly modelPath: string;
  readonly maxModelTokens: number;
  readonly limits: EngineLimits;
  /** Data-parallel ranks, each with a cache and a publisher of its own (at the configured ports plus the rank). Default 1. */
  readonly ranks?: number;
  readonly profile: EngineProfile;
  /** Divides the duration of all work; 1 is real time. */
  readonly speed: number;
  /** How long the model "loads" before it is ready. */
  readonly loadMs: number;
  readonly seed: number;
  /** `usage.prompt_tokens_details` is filled. */
  readonly reportsCachedTokens: boolean;
  readonly metrics: boolean;
  /** Undefined: no KV events. */
  readonly events?: KvEndpoints & { readonly encoding: KvEncoding };
  /** Start of the hash chain (`PYTHONHASHSEED`). */
  readonly hashSeed?: string;
  readonly hashAlgorithm: string;
  /** vLLM: seconds that running requests may take after SIGTERM; 0 hangs as the real one does. */
  readonly shutdownTimeoutS: number;
  readonly apiKeys: readonly string[];
  /** `/reset_prefix_cache` and its like are served (vLLM, `VLLM_SERVER_DEV_MODE=1`). */
  readonly devMode: boolean;
  /** It can be put to sleep (vLLM, `--enable-sleep-mode`). */
  readonly sleepMode?: boolean;
  readonly llama?: LlamaOptions;
  /** Prefill → decode over NIXL (vLLM, `--kv-transfer-config`). */
  readonly nixl?: NixlOptions;
  /** Prefill → decode with a bootstrap server (SGLang, `--disaggregation-mode`). */
  readonly bootstrap?: BootstrapOptions;
  /** False: JSON by schema and tools that must be called are refused (SGLang, `--grammar-backend none`). */
  readonly grammar?: boolean;
  /** Child processes that outlive a killed parent, as vLLM's and SGLang's do. */
  readonly orphans?: number;
  readonly faults: readonly Fault[];
}
