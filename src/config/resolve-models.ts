import { modelAnswers } from "./answer-schema.ts";
import { thresholdsOf } from "./cascade-schema.ts";
import { isTable } from "./layers.ts";
import { type LoadContext, parsePart, report } from "./load-context.ts";
import { modelSchema } from "./model-schema.ts";
import type { ModelSettings } from "./settings.ts";

/** Every `[models."NAME"]` table, in the file's order. */
export function resolveModels(ctx: LoadContext): ModelSettings[] {
  const tables = ctx.layers.tree.models;
  if (tables !== undefined && !isTable(tables)) {
    report(ctx, ["models"], { problem: "is no table of models", remedy: 'Write [models."NAME"] for each model' });
    return [];
  }
  return Object.entries(tables ?? {}).map(([name, written]) => resolveModel(ctx, name, written));
}

function resolveModel(ctx: LoadContext, name: string, written: unknown): ModelSettings {
  if (name.trim() === "") {
    report(ctx, ["models", name], {
      problem: "the model has no name",
      remedy: 'Write [models."NAME"] with the name that clients use',
    });
  }
  const model = parsePart(ctx, ["models", name], modelSchema, written);
  const answers = modelAnswers(model);
  return {
    name,
    tp: model.tp,
    extraArgs: model.extra_args,
    cascade: model.cascade,
    cascadeThresholds: thresholdsOf(model.cascade_threshold),
    ...(answers === undefined ? {} : { answers }),
    ...(model.path === undefined ? {} : { path: model.path }),
    ...(model.hf_repo === undefined ? {} : { hfRepo: model.hf_repo }),
    ...(model.tokenizer === undefined ? {} : { tokenizer: model.tokenizer }),
    ...(model.dtype === undefined ? {} : { dtype: model.dtype }),
    ...(model.max_model_len === undefined ? {} : { maxModelLen: model.max_model_len }),
    ...(model.max_prompt_tokens === undefined ? {} : { maxPromptTokens: model.max_prompt_tokens }),
    ...(model.prefill_replicas === undefined ? {} : { prefillReplicas: model.prefill_replicas }),
    ...(model.decode_replicas === undefined ? {} : { decodeReplicas: model.decode_replicas }),
  };
}

/** A model that only a name is known of. */
export function modelByName(name: string): ModelSettings {
  return { name, tp: 1, extraArgs: [], cascade: [], cascadeThresholds: [] };
}
