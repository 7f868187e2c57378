import type { EngineVariant } from "../variant.ts";

const PROGRAM = "vllm";

/** The ways of writing `[engine.vllm]` that real vLLMs are asked about. */
export const vllmVariants: readonly EngineVariant[] = [
  { name: "default", program: PROGRAM },
  {
    name: "cpu",
    program: PROGRAM,
    onCpu: true,
    model: { tp: 1 },
    blockTokens: 32,
    for: (offload) => offload !== "kvbm",
  },
  { name: "events-off", program: PROGRAM, section: { kv_events: false } },
  { name: "data-parallel", program: PROGRAM, model: { extraArgs: ["--data-parallel-size", "2"] } },
  {
    name: "written",
    program: PROGRAM,
    model: { dtype: "bfloat16", maxModelLen: 4096 },
    blockTokens: 64,
    section: { extra_args: ["--prefix-caching-hash-algo", "sha256_cbor", "--gpu-memory-utilization", "0.8"] },
  },
  {
    name: "lmcache-sized",
    program: PROGRAM,
    section: { lmcache: { chunk_size: 512, cpu_gib: 20 } },
    for: (offload) => offload === "lmcache",
  },
  {
    name: "lmcache-mp",
    program: PROGRAM,
    section: { lmcache: { mode: "mp" } },
    for: (offload) => offload === "lmcache",
  },
  {
    name: "lmcache-mp-cpu",
    program: PROGRAM,
    section: { lmcache: { mode: "mp", cpu_gib: 1, chunk_size: 64 } },
    onCpu: true,
    model: { tp: 1 },
    blockTokens: 32,
    for: (offload) => offload === "lmcache",
  },
  {
    name: "lmcache-pd-connector",
    program: PROGRAM,
    section: { lmcache: { wrapper: "pd_connector" } },
    for: (offload, role) => offload === "lmcache" && role !== "both",
  },
  {
    name: "kvbm-disk",
    program: PROGRAM,
    section: { kvbm: { cpu_cache_gib: 8, disk_cache_gib: 64 } },
    for: (offload, role) => offload === "kvbm" && role !== "decode",
  },
];
