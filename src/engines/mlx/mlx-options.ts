import { z } from "zod";

/** `[engine.mlx]`, also read as `[engine.mlx_lm]`. */
export const mlxSchema = z.strictObject({
  binary: z.string().min(1).default("python3").describe("Python that has the mlx_lm package, a name or a path"),
  host: z.string().min(1).default("127.0.0.1").describe("Address to listen on, when engine.url is not written"),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .default(8090)
    .describe("Port to listen on, when engine.url is not written")
    .meta({ unit: "port" }),
  extra_args: z
    .array(z.string())
    .default([])
    .describe("More arguments, added last; what they set is not rendered twice"),
});

export type MlxOptions = z.infer<typeof mlxSchema>;
