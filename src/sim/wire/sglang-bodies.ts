import type { CacheUse, EngineModel } from "../model/engine-model.ts";
import type { AnswerShapes, Generation } from "./answer-shapes.ts";
import { type HostPort, parseEndpoint } from "./endpoint.ts";
import type { SimOptions } from "./sim-options.ts";

/** Bodies as SGLang 0.5.23 gives them, key for key (`../testdata/sglang`). */

/** SGLang's error body. */
export function sglangError(status: number, type: string, message: string): object {
  return { object: "error", message, type, param: null, code: status };
}

function usageOf(g: Generation, use: CacheUse): object {
  return {
    prompt_tokens: g.prompt.length,
    total_tokens: g.prompt.length + g.text.length,
    completion_tokens: g.text.length,
    prompt_tokens_details: g.reportsCachedTokens ? { cached_tokens: use.cachedTokens } : null,
    reasoning_tokens: 0,
    completion_tokens_details: null,
  };
}

function head(g: Generation, object: string): object {
  return { id: g.id, object, created: g.created, model: g.model };
}

function metadata(g: Generation): object {
  return {
    weight_version: "default",
    weight_versions: [{ version: "default", start: 0, end: g.text.length }],
  };
}

function chunk(g: Generation, delta: object, finish: string | null): object {
  const matched = finish === "stop" ? g.stopReason : null;
  const choice = {
    index: 0,
    delta: { reasoning_content: null, ...delta },
    logprobs: null,
    finish_reason: finish,
    matched_stop: matched,
  };
  return { ...head(g, "chat.completion.chunk"), choices: [choice] };
}

/** `/v1/chat/completions` */
export const sglangChat: AnswerShapes = {
  whole(g, use) {
    const message = { role: "assistant", content: g.text, reasoning_content: null };
    const choice = { index: 0, message, logprobs: null, finish_reason: g.finish, matched_stop: g.stopReason };
    return { ...head(g, "chat.completion"), choices: [choice], usage: usageOf(g, use), metadata: metadata(g) };
  },
  open: (g) => chunk(g, { role: "assistant", content: "" }, null),
  delta: (g, text) => chunk(g, { content: text }, null),
  close: (g) => chunk(g, {}, g.finish),
  usage: (g, use) => ({ ...head(g, "chat.completion.chunk"), choices: [], usage: usageOf(g, use) }),
};

/** `/v1/completions` */
export const sglangCompletion: AnswerShapes = {
  whole(g, use) {
    const choice = { index: 0, text: g.text, logprobs: null, finish_reason: g.finish, matched_stop: g.stopReason };
    return { ...head(g, "text_completion"), choices: [choice], usage: usageOf(g, use), metadata: metadata(g) };
  },
  open: () => undefined,
  delta: (g, text) => completionChunk(g, text, null),
  close: (g) => completionChunk(g, "", g.finish),
  usage: (g, use) => ({ ...head(g, "text_completion"), choices: [], usage: usageOf(g, use) }),
};

function completionChunk(g: Generation, text: string, finish: string | null): object {
  const matched = finish === "stop" ? g.stopReason : null;
  return {
    ...head(g, "text_completion"),
    choices: [{ index: 0, text, logprobs: null, finish_reason: finish, matched_stop: matched }],
  };
}

/** `/v1/models` */
export function sglangModels(options: SimOptions, created: number): object {
  const [id] = options.models;
  const entry = { id, object: "model", created, owned_by: "sglang", root: id, parent: null };
  return { object: "list", data: [{ ...entry, max_model_len: options.maxModelTokens }] };
}

/** `/model_info` and `/get_model_info`, the keys that say something about the simulator. */
export function sglangModelInfo(options: SimOptions): object {
  return {
    model_path: options.modelPath,
    served_model_name: options.models[0],
    tokenizer_path: options.modelPath,
    is_generation: true,
    preferred_sampling_params: null,
    weight_version: "default",
    disaggregation_mode: "null",
  };
}

/** `/server_info` and `/get_server_info`: of its 500 keys those that a control plane reads. */
export function sglangServerInfo(options: SimOptions, http: HostPort): object {
  const { limits, events } = options;
  return {
    model_path: options.modelPath,
    tokenizer_path: options.modelPath,
    served_model_name: options.models[0],
    context_length: options.maxModelTokens,
    page_size: limits.blockTokens,
    max_total_num_tokens: limits.blocks * limits.blockTokens,
    max_running_requests: limits.maxSequences,
    chunked_prefill_size: limits.maxBatchedTokens,
    disable_radix_cache: !limits.prefixCaching,
    enable_metrics: options.metrics,
    enable_cache_report: options.reportsCachedTokens,
    tp_size: 1,
    dp_size: 1,
    host: http.host,
    port: http.port,
    disaggregation_mode: "null",
    ...(events === undefined ? {} : { kv_events: kvEvents(events, limits.blockTokens, options.ranks ?? 1) }),
    version: options.version,
    simulated: true,
  };
}

function kvEvents(events: NonNullable<SimOptions["events"]>, blockTokens: number, ranks: number): object {
  const live = parseEndpoint(events.endpoint);
  const replay = events.replay === undefined ? undefined : parseEndpoint(events.replay);
  return {
    publisher: "zmq",
    endpoint_host: live?.host ?? "*",
    endpoint_port_base: live?.port ?? null,
    topic: events.topic,
    block_size: blockTokens,
    dp_size: ranks,
    ...(replay === undefined ? {} : { replay_endpoint_port_base: replay.port }),
  };
}

/** `/v1/loads`. The real one is a snapshot that says 0 running while it generates; this one is up to date. */
export function sglangLoads(options: SimOptions, model: EngineModel, epochMs: number): object {
  const total = options.limits.blocks * options.limits.blockTokens;
  const used = model.usedBlocks * options.limits.blockTokens;
  const { queriedTokens, hitTokens } = model.counters;
  return {
    timestamp: new Date(epochMs).toISOString(),
    version: options.version,
    accelerator: null,
    num_accelerators: 1,
    loads: [
      {
        timestamp: epochMs / 1000,
        dp_rank: 0,
        num_running_reqs: model.running,
        num_waiting_reqs: model.waiting,
        num_used_tokens: used,
        max_total_num_tokens: total,
        max_running_requests: options.limits.maxSequences,
        token_usage: used / total,
        gen_throughput: 0,
        cache_hit_rate: queriedTokens === 0 ? 0 : hitTokens / queriedTokens,
      },
    ],
  };
}
