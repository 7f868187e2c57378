import type { EngineVariant } from "../variant.ts";

const GGUF = { path: "model.gguf", tp: 1 };

/** The ways of writing `[engine.llama_cpp]` that real llama.cpp servers are asked about. */
export const llamaCppVariants: readonly EngineVariant[] = [
  { name: "binary", program: "llama-server", section: { mode: "binary" }, model: GGUF },
  {
    name: "binary-parallel",
    program: "llama-server",
    section: { mode: "binary", parallel: 4, n_ctx: 2048, n_threads: 2, n_gpu_layers: -1 },
    model: GGUF,
  },
  {
    name: "binary-hub",
    program: "llama-server",
    section: { mode: "binary", extra_args: ["--cache-ram", "2048", "--jinja"] },
    model: { hfRepo: "org/model-GGUF", tp: 1 },
  },
  { name: "python-server", program: "llama_cpp.server", section: { mode: "python_server" }, model: GGUF },
  {
    name: "python-server-written",
    program: "llama_cpp.server",
    section: { mode: "python_server", n_ctx: 2048, n_threads: 2, n_gpu_layers: -1, extra_args: ["--n_batch", "256"] },
    model: GGUF,
  },
  { name: "xllamacpp", program: "xllamacpp", section: { mode: "xllamacpp" }, model: GGUF },
  {
    name: "xllamacpp-parallel",
    program: "xllamacpp",
    section: { mode: "xllamacpp", parallel: 2, n_ctx: 2048, n_threads: 1 },
    model: GGUF,
  },
];
