import { z } from "zod";

/** `[engine.openai_compat]`: an endpoint that somebody else runs, at `engine.url`. */
export const openaiCompatSchema = z.strictObject({
  upstream_model: z
    .string()
    .min(1)
    .optional()
    .describe("The name that the endpoint wants in `model`")
    .meta({ defaultText: "the model's own name" }),
  cached_prompts: z
    .int()
    .min(1)
    .default(64)
    .describe("How many prompts the endpoint is believed to keep in its prefix cache")
    .meta({ unit: "prompts" }),
});

export type OpenaiCompatOptions = z.infer<typeof openaiCompatSchema>;
