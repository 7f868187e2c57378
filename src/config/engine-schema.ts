import { z } from "zod";
import { ENGINE_KINDS } from "../core/engine-kind.ts";
import { DEFAULT_KV_OFFLOAD, KV_OFFLOADS } from "../core/kv-offload.ts";
import type { Engine } from "../engines/engine.ts";
import { perEngineAgentKeys } from "./agent-schema.ts";
import { about, flag, optionalDuration, optionalText, port, textList } from "./schema-fields.ts";

/** Keys that do not depend on the engines' own sections. */
const COMMON = {
  kind: about(z.enum(ENGINE_KINDS).default("vllm"), "Which inference engine"),
  url: optionalText("Base URL of the engine, without a path: where it is started, or where it is found", {
    unit: "URL",
    defaultText: "http://127.0.0.1 with `port`, the section's port, or the engine's usual one (vLLM: 8000)",
  }),
  port: about(port().optional(), "Port of the engine, where `url` is not written", { unit: "port" }),
  kv_offload: about(
    z.enum(KV_OFFLOADS).default(DEFAULT_KV_OFFLOAD),
    "The dial: which KV connector or offload backend the engine is started with. Which engine accepts which, and in which role: `cgn table`",
  ),
  model: optionalText('Name of the `[models."NAME"]` table that this engine loads', {
    defaultText: "each model gets an engine",
  }),
  spawn: about(z.boolean().optional(), "Start the engine; false adopts one that somebody else started", {
    defaultText: "true, but false for `openai_compat`",
  }),
  gpus: about(z.array(z.int().min(0)).min(1).optional(), "GPUs of this engine, in rank order", {
    unit: "GPU index",
    defaultText:
      "from `gpu_index`; else, with several engines, as many of the host's as it computes on, none of them another's; else it sees all",
  }),
  share_gpus: flag(
    "Other engines with this flag may have the same GPUs; lower each one's share of GPU memory then",
    false,
  ),
  start_after: about(
    textList().optional(),
    "Engines (model, node_id or NODE/MODEL) that must be ready, or have failed, before this one is started; they are stopped after it",
    { defaultText: "all are started at once" },
  ),
  env: about(
    z.record(z.string(), z.union([z.string(), z.strictObject({ secret_from: z.string().min(1) })])).optional(),
    'Variables of the engine and of what runs beside it; they win over rendered ones. A secret: `{ secret_from = "file:/run/secrets/hf" }` or `"env:NAME"`',
  ),
  inherit_env: about(
    z.union([z.boolean(), z.array(z.string())]).default(true),
    "What of cgn's own environment the engine gets: all; with `false` only PATH, HOME, locale and the like; with a list those and the named ones (`HF_*`)",
  ),
  group: optionalText(
    "Prefill and decode engines of one group hand over to each other. Also the name of a `[swap.groups]` that the engine belongs to",
    { defaultText: "all engines of a model; the swap group that lists the model" },
  ),
  ttl: optionalDuration("Unload the engine when it was idle this long; the next request loads it again", {
    defaultText: "never",
  }),
  preload: about(z.boolean().optional(), "Start the engine with the agent; false starts it with its first request", {
    defaultText:
      "true, but false for an engine that has a `ttl`, is in a swap group, counts in the memory budget, or shares its GPUs with another model",
  }),
  memory_gib: about(z.number().positive().optional(), "What the loaded engine takes of `[swap].memory_gib`", {
    unit: "GiB",
    defaultText: "not counted",
  }),
  prefill_bootstrap_port: about(
    port().optional(),
    "Bootstrap port of the prefill server that this decode engine dials",
    {
      unit: "port",
      defaultText: "that of the prefill engine of the same model and group in this file",
    },
  ),
  kv_events: optionalText(
    "ZMQ endpoint where an adopted engine publishes KV events, for example `tcp://127.0.0.1:5557`",
    {
      unit: "ZMQ endpoint",
      defaultText: "asked from the engine",
    },
  ),
  kv_replay: optionalText("ZMQ endpoint where an adopted engine replays KV events", { unit: "ZMQ endpoint" }),
  ...perEngineAgentKeys,
};

/** One engine: `[engine]`, or an entry of `[[engines]]`, with the section of each engine kind below it. */
export function engineSchema(engines: readonly Engine[]) {
  const sections: Record<string, z.ZodType> = {};
  for (const engine of engines) {
    const meaning = engine.schema.description ?? `Options of engine kind \`${engine.kind}\``;
    sections[engine.section] = about(engine.schema.optional(), meaning, { aliases: engine.sectionAliases });
  }
  return z.strictObject({ ...COMMON, ...sections });
}

/** The keys of an engine that every kind has, parsed. The engine's own section is parsed apart. */
export const commonEngineSchema = z.object(COMMON);

export type CommonEngine = z.infer<typeof commonEngineSchema>;
