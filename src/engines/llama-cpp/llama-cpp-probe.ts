import type { KvSource } from "../../core/worker.ts";
import type { EngineLoad, EngineProbe, ProbeReply, ToldTemplate } from "../engine.ts";
import {
  countOf,
  fieldsOf,
  metricSum,
  metricTotal,
  readJson,
  readModelList,
  readSimulatedTokenizer,
  textOf,
} from "../probe-text.ts";
import { llamaChat } from "./llama-cpp-chat.ts";
import { AUTOMATIC_SLOTS } from "./llama-cpp-launch.ts";
import { llamaHistory } from "./llama-cpp-slots.ts";

/**
 * Readers of llama.cpp's answers: llama-server and xllamacpp alike (October 2026); llama_cpp.server has only `/v1/models`.
 *
 * With an API key llama-server opens only `/health`; the others answer 401 without it.
 */
export const llamaCppProbe: EngineProbe = {
  // It answers within 0.1 s with 40 streams on one core (measured); the rest is for hosts that share theirs.
  ready: { path: "/health", verdict, answerMs: 5_000 },
  metrics: { path: "/metrics", parse: parseLoad },
  models: { path: "/v1/models", parse: readModelList },
  template: { path: "/props", parse: parseTemplate },
  apiKey: { flags: ["--api-key", "--api_key"], variables: ["LLAMA_API_KEY"] },
  kvSources: { path: "/props", parse: parseHistory },
  version: { path: "/props", parse: parseVersion },
  tokenizer: { path: "/props", parse: readSimulatedTokenizer },
};

/** 404 on `/health` is llama_cpp.server, which listens only once its model is loaded. */
function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if (status === 200 || status === 404) return "ready";
  return status === 0 || status === 503 ? "loading" : "failed";
}

/** `n_decode_total` counts each batch, of a long prompt too. */
const WORK = ["llamacpp:n_decode_total", "llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total"];

/** It tells no share of KV in use. */
function parseLoad(text: string): EngineLoad {
  const running = metricSum(text, "llamacpp:requests_processing");
  const waiting = metricSum(text, "llamacpp:requests_deferred");
  const progress = metricTotal(text, WORK);
  return {
    ...(running === undefined ? {} : { running }),
    ...(waiting === undefined ? {} : { waiting }),
    ...(progress === undefined ? {} : { progress }),
  };
}

/** What it found out about its template by trying (`chat_template_caps`) decides what it hands to it. */
function parseTemplate(body: string): ToldTemplate | undefined {
  const props = fieldsOf(readJson(body));
  const template = textOf(props["chat_template"]);
  if (template === undefined) return undefined;
  const bos = textOf(props["bos_token"]);
  const eos = textOf(props["eos_token"]);
  const caps = fieldsOf(props["chat_template_caps"]);
  const typed = caps["supports_typed_content"] === true;
  const contents = !typed ? "text" : caps["supports_string_content"] === true ? "given" : "parts";
  const chat = {
    ...llamaChat(caps),
    ...(caps["supports_typed_content"] === undefined ? {} : ({ contents } as const)),
    ...(caps["supports_object_arguments"] === false ? { textArguments: true } : {}),
  };
  return { template, chat, ...(bos === undefined ? {} : { bos }), ...(eos === undefined ? {} : { eos }) };
}

/** It does not tell whether its slots share a context: their automatic number means that they do. */
function parseHistory(body: string): readonly KvSource[] {
  const slots = countOf(fieldsOf(readJson(body))["total_slots"]);
  return slots === undefined || slots > MAX_SLOTS ? [] : [llamaHistory(slots, slots === AUTOMATIC_SLOTS, [])];
}

/** An answer must not be able to make us believe in any number of prompts. */
const MAX_SLOTS = 1024;

/** `b0-unknown` is what builds outside a git checkout say: it tells nothing. */
function parseVersion(body: string): string | undefined {
  const build = textOf(fieldsOf(readJson(body))["build_info"]);
  return build === undefined || build.startsWith("b0-") ? undefined : build;
}
