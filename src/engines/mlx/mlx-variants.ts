import type { EngineVariant } from "../variant.ts";

/** The ways of writing `[engine.mlx]` that a real mlx-lm is asked about. */
export const mlxVariants: readonly EngineVariant[] = [
  { name: "default", program: "mlx-lm", model: { tp: 1 } },
  {
    name: "written",
    program: "mlx-lm",
    model: { tp: 1, path: "model" },
    section: { extra_args: ["--prompt-cache-size", "4", "--max-tokens", "1024", "--decode-concurrency", "8"] },
  },
];
