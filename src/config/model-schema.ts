import { z } from "zod";
import { modelAnswerKeys } from "./answer-schema.ts";
import { modelCascadeKeys } from "./cascade-schema.ts";
import { about, optionalText } from "./schema-fields.ts";

const replicas = (role: string) =>
  about(z.int().min(0).optional(), `How many ${role} engines the original's scheduler started`, {
    unit: "engines",
    unsupported: true,
    defaultText: "as many as `[engine]` and `[[engines]]` say",
  });

/** `[models."NAME"]`: a model under the name that clients use. */
export const modelSchema = z.strictObject({
  path: optionalText("Folder or file of the model on this host; wins over `hf_repo`", { unit: "path" }),
  hf_repo: optionalText("Repository on the Hugging Face hub", { defaultText: "NAME itself" }),
  tokenizer: optionalText(
    "Where tokenizer and chat template lie when not beside the weights: a folder, a GGUF file, or `bytes` (the simulator's)",
    { unit: "path", defaultText: "`path`" },
  ),
  dtype: optionalText("Number format of the weights, as the engine spells it", { defaultText: "the engine's choice" }),
  tp: about(z.int().min(1).default(1), "Tensor-parallel degree", { unit: "GPUs" }),
  max_model_len: about(z.int().min(1).optional(), "Context limit", { unit: "tokens", defaultText: "the model's own" }),
  max_prompt_tokens: about(
    z.int().min(1).optional(),
    "Longer prompts are refused with 400 before they reach an engine",
    {
      unit: "tokens",
      defaultText: "the context limit",
    },
  ),
  ...modelAnswerKeys,
  prefill_replicas: replicas("prefill"),
  decode_replicas: replicas("decode"),
  ...modelCascadeKeys,
  extra_args: about(
    z.array(z.string()).default([]),
    "Words added to the engine's command after its section's `extra_args`; what is written here wins over what is rendered",
  ),
});
