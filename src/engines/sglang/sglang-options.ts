import { z } from "zod";

/** Choices of `--hicache-write-policy` (SGLang 0.5.23). */
export const WRITE_POLICIES = ["write_back", "write_through", "write_through_selective"] as const;
/** Choices of `--hicache-io-backend`. */
export const IO_BACKENDS = ["direct", "kernel", "kernel_ascend"] as const;
/** Choices of `--hicache-mem-layout`. */
export const MEM_LAYOUTS = [
  "layer_first",
  "page_first",
  "page_first_direct",
  "page_first_kv_split",
  "page_head",
] as const;
/** Choices of `--hicache-storage-backend`, from the parser's own message (SGLang 0.5.23). */
export const STORAGE_BACKENDS = [
  "file",
  "sim",
  "mooncake",
  "npu_memcache",
  "hf3fs",
  "nixl",
  "aibrix",
  "dynamic",
  "eic",
  "simm",
  "mori",
  "shm",
  "tensorcast",
  "seaweedfs",
] as const;

const hicacheSchema = z.strictObject({
  ratio: z
    .number()
    .gt(1)
    .default(2)
    .describe("Host KV pool as a multiple of the device pool (--hicache-ratio). Not rendered when size_gib is written")
    .meta({ unit: "ratio" }),
  size_gib: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Host KV pool of each tensor-parallel rank (--hicache-size; SGLang counts decimal gigabytes: 64 is 59.6 GiB). Wins over ratio",
    )
    .meta({ unit: "GB per rank" }),
  write_policy: z
    .enum(WRITE_POLICIES)
    .default("write_through")
    .describe("When device blocks are copied to the host (--hicache-write-policy)"),
  io_backend: z
    .enum(IO_BACKENDS)
    .optional()
    .describe("How blocks move between device and host (--hicache-io-backend)")
    .meta({ defaultText: "SGLang's own: kernel" }),
  mem_layout: z
    .enum(MEM_LAYOUTS)
    .optional()
    .describe("Layout of the host pool (--hicache-mem-layout)")
    .meta({ defaultText: "SGLang's own: page_first" }),
  storage: z
    .enum(STORAGE_BACKENDS)
    .optional()
    .describe(
      "Third cache level behind the host pool (--hicache-storage-backend). With kv_offload = nixl only nixl is used",
    ),
  decode_radix: z
    .boolean()
    .default(false)
    .describe(
      "On a decode worker: keep a radix cache with HiCache (--disaggregation-decode-enable-radix-cache, experimental in SGLang)",
    ),
});

const port = z.int().min(1).max(65_535);

/** `[engine.sglang]`. Defaults are those of the configuration reference. */
export const sglangSchema = z.strictObject({
  binary: z.string().min(1).default("python3").describe("Python that has the sglang package, a name or a path"),
  host: z.string().min(1).default("127.0.0.1").describe("Address to listen on, when engine.url is not written"),
  port: port.optional().describe("Port to listen on, when engine.url is not written").meta({ defaultText: "8000" }),
  context_length: z
    .int()
    .min(1)
    .optional()
    .describe("Context limit (--context-length). Above the model's own limit SGLang refuses it")
    .meta({ unit: "tokens", defaultText: "the model's max_model_len, else 4096" }),
  mem_fraction_static: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.85)
    .describe("Share of device memory for weights and KV pool (--mem-fraction-static)")
    .meta({ unit: "fraction" }),
  hicache: hicacheSchema
    .optional()
    .describe("HiCache, used with kv_offload = hicache (and with nixl, when storage = nixl)"),
  extra_args: z
    .array(z.string())
    .default([])
    .describe("More arguments, added last; what they set is not rendered twice"),
});

export type SglangOptions = z.infer<typeof sglangSchema>;
export type HicacheOptions = z.infer<typeof hicacheSchema>;

/** What `[engine.sglang.hicache]` means where the table is not written. */
export const DEFAULT_HICACHE: HicacheOptions = hicacheSchema.parse({});

/** The context limit that is rendered where neither the section nor the model has one (the old default). */
export const DEFAULT_CONTEXT = 4096;
