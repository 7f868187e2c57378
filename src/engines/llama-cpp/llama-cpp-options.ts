import { z } from "zod";
import type { EngineSlot } from "../engine.ts";

/** How llama.cpp is run. `xllamacpp` is a launcher of cgn's own on the prebuilt wheel: llama-server's HTTP without compiling. */
export const MODES = ["binary", "python_server", "xllamacpp"] as const;

export type LlamaCppMode = (typeof MODES)[number];

/** `[engine.llama_cpp]`. Defaults are those of the configuration reference. */
export const llamaCppSchema = z.strictObject({
  mode: z
    .enum(MODES)
    .optional()
    .describe(
      "binary: llama-server. python_server: python -m llama_cpp.server. xllamacpp: cgn's launcher on the xllamacpp wheel",
    )
    .meta({ defaultText: "binary where a llama-server is found, else python_server" }),
  binary: z
    .string()
    .min(1)
    .optional()
    .describe("The program: llama-server in mode binary, else a Python that has the package; a name or a path")
    .meta({ defaultText: "llama-server in mode binary, else python3" }),
  host: z.string().min(1).default("127.0.0.1").describe("Address to listen on, when engine.url is not written"),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe("Port to listen on, when engine.url is not written")
    .meta({ defaultText: "8000" }),
  n_ctx: z
    .int()
    .min(1)
    .optional()
    .describe("Context limit of one request")
    .meta({ unit: "tokens", defaultText: "the model's max_model_len, else 4096" }),
  n_threads: z
    .int()
    .min(1)
    .optional()
    .describe("Processor threads. Two engines that each take all cores slow each other down some 35 times")
    .meta({ unit: "threads", defaultText: "the cores divided by the engines on the host" }),
  n_gpu_layers: z.int().min(-1).default(0).describe("Layers on the GPU; -1 for all of them").meta({ unit: "layers" }),
  parallel: z
    .int()
    .min(1)
    .optional()
    .describe("Requests at a time, each with a context of n_ctx; not in mode python_server")
    .meta({ defaultText: "llama.cpp's own: 4, which share one context" }),
  extra_args: z
    .array(z.string())
    .default([])
    .describe("More arguments, added last; what they set is not rendered twice"),
});

export type LlamaCppOptions = z.infer<typeof llamaCppSchema>;

/** The context limit that is rendered where neither the section nor the model has one. */
export const DEFAULT_CONTEXT = 4096;

/**
 * The mode that holds: as written, as the program's name tells, else `binary` where the host has a llama-server.
 *
 * @param slot - left out for an engine that somebody else started: that is taken for llama-server unless a mode is written
 */
export function modeOf(options: LlamaCppOptions, slot?: Pick<EngineSlot, "found">): LlamaCppMode {
  if (options.mode !== undefined) return options.mode;
  if (slot === undefined) return "binary";
  if (options.binary !== undefined) {
    const name = options.binary.slice(options.binary.lastIndexOf("/") + 1);
    return name.startsWith("llama") ? "binary" : "python_server";
  }
  return slot.found?.includes("llama-server") === true ? "binary" : "python_server";
}

/** The program that is run in a mode. */
export function programOf(options: LlamaCppOptions, mode: LlamaCppMode): string {
  return options.binary ?? (mode === "binary" ? "llama-server" : "python3");
}
