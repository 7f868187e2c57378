import type { EngineLoad, EngineProbe, ProbeReply } from "../engine.ts";
import { fieldsOf, metricSum, readJson, readModelList, textOf } from "../probe-text.ts";

/**
 * Readers of llama.cpp's answers: llama-server and xllamacpp alike (October 2026); llama_cpp.server has only `/v1/models`.
 *
 * With an API key llama-server opens only `/health`; the others answer 401 without it.
 */
export const llamaCppProbe: EngineProbe = {
  ready: { path: "/health", verdict },
  metrics: { path: "/metrics", parse: parseLoad },
  models: { path: "/v1/models", parse: readModelList },
  template: { path: "/props", parse: parseTemplate },
  version: { path: "/props", parse: parseVersion },
};

/** 404 on `/health` is llama_cpp.server, which listens only once its model is loaded. */
function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if (status === 200 || status === 404) return "ready";
  return status === 0 || status === 503 ? "loading" : "failed";
}

/** It tells no share of KV in use. */
function parseLoad(text: string): EngineLoad {
  const running = metricSum(text, "llamacpp:requests_processing");
  const waiting = metricSum(text, "llamacpp:requests_deferred");
  return { ...(running === undefined ? {} : { running }), ...(waiting === undefined ? {} : { waiting }) };
}

function parseTemplate(body: string): { template: string; bos?: string; eos?: string } | undefined {
  const props = fieldsOf(readJson(body));
  const template = textOf(props["chat_template"]);
  if (template === undefined) return undefined;
  const bos = textOf(props["bos_token"]);
  const eos = textOf(props["eos_token"]);
  return { template, ...(bos === undefined ? {} : { bos }), ...(eos === undefined ? {} : { eos }) };
}

/** `b0-unknown` is what builds outside a git checkout say: it tells nothing. */
function parseVersion(body: string): string | undefined {
  const build = textOf(fieldsOf(readJson(body))["build_info"]);
  return build === undefined || build.startsWith("b0-") ? undefined : build;
}
