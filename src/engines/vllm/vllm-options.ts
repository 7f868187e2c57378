import { z } from "zod";

const gib = (meaning: string) => z.number().positive().optional().meta({ unit: "GiB" }).describe(meaning);
const wholeGib = (meaning: string) => z.int().positive().optional().meta({ unit: "GiB" }).describe(meaning);

/** `[engine.vllm.lmcache]`. Defaults of what is not written are LMCache's own (0.5.6). */
const lmcache = z.strictObject({
  mode: z
    .enum(["in_process", "mp"])
    .default("in_process")
    .describe(
      "in_process: LMCache inside vLLM (LMCacheConnectorV1), CUDA only. mp: an `lmcache server` that the agent runs beside the engine (LMCacheMPConnector)",
    ),
  wrapper: z
    .enum(["multi", "pd_connector"])
    .default("multi")
    .describe(
      "How LMCache and NIXL are joined on prefill and decode. multi: vLLM's own MultiConnector. pd_connector: PdConnector of the kvbm package, in_process only",
    ),
  host: z.string().min(1).default("127.0.0.1").describe("mode mp: address that the LMCache server binds"),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .meta({ defaultText: "a side port of the engine" })
    .describe("mode mp: port of the LMCache server"),
  chunk_size: z
    .int()
    .positive()
    .optional()
    .meta({ unit: "tokens", defaultText: "256" })
    .describe("Tokens that LMCache stores as one chunk; a multiple of the block size"),
  cpu_gib: gib("CPU memory that LMCache keeps KV in, for each engine process").meta({ unit: "GiB", defaultText: "5" }),
});

/** `[engine.vllm.kvbm]`. */
const kvbm = z.strictObject({
  cpu_cache_gib: wholeGib("CPU memory of KVBM; should exceed the GPU's KV memory, or blocks churn").meta({
    unit: "GiB",
    defaultText: "16, when no disk_cache_gib is written either",
  }),
  disk_cache_gib: wholeGib("Disk space of KVBM; should exceed cpu_cache_gib"),
  disk_dir: z
    .string()
    .min(1)
    .optional()
    .meta({ defaultText: "a folder in the agent's state directory" })
    .describe("Folder of KVBM's disk cache; each engine takes a subfolder named after its port"),
});

/**
 * `[engine.vllm]`. Flags are rendered for vLLM 0.24 and newer, and checked on 0.32.0 and 0.33.0.
 */
export const vllmOptions = z.strictObject({
  binary: z.string().min(1).default("vllm").describe("The vllm program: a name on the PATH, or a path"),
  extra_args: z
    .array(z.string())
    .default(["--enable-chunked-prefill"])
    .describe("Words added to the command line; a flag written here wins over the one that cgn would render"),
  kv_events: z
    .boolean()
    .default(true)
    .describe("Publish KV cache events, from which cgn-kvcached knows what the engine holds"),
  sleep: z
    .int()
    .min(1)
    .max(2)
    .optional()
    .meta({ unit: "level", defaultText: "the engine is ended, and started again" })
    .describe(
      "An engine that is loaded on demand sleeps instead of ending, which is quicker: 1 keeps the weights in host memory, 2 drops them and loads them again. GPU only; opens vLLM's development calls on the engine's address",
    ),
  lmcache: lmcache.prefault({}).describe('LMCache, used with kv_offload = "lmcache"'),
  kvbm: kvbm.prefault({}).describe('NVIDIA Dynamo KVBM, used with kv_offload = "kvbm"'),
});

export type VllmOptions = z.output<typeof vllmOptions>;
export type LmcacheOptions = VllmOptions["lmcache"];
export type KvbmOptions = VllmOptions["kvbm"];

/** LMCache's own defaults (0.5.6, `lmcache/v1/config.py`), needed where the server's flags are spelled out. */
export const LMCACHE_DEFAULTS = { chunkTokens: 256, cpuGib: 5 } as const;

/** KVBM panics without a size, so one is given; small enough for any GPU host. */
export const KVBM_DEFAULT_CPU_GIB = 16;
