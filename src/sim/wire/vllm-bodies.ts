import type { CacheUse } from "../model/engine-model.ts";
import { encodeText } from "../tokens.ts";
import type { AnswerShapes, Generation } from "./answer-shapes.ts";
import { rankEndpoints } from "./kv-publisher.ts";
import type { SimOptions } from "./sim-options.ts";

/** Bodies as vLLM 0.32.0 gives them, key for key (`../testdata/vllm`). */
const FINGERPRINT = "vllm-0.32.0-4eba09dd";

/** vLLM's error body. */
export function vllmError(status: number, type: string, message: string, param: string | null = null): object {
  return { error: { message, type, param, code: status } };
}

/** The figures of `usage`, whole answer. Details are null unless the engine was told to report them. */
function wholeUsage(generation: Generation, use: CacheUse): object {
  return {
    prompt_tokens: generation.prompt.length,
    total_tokens: generation.prompt.length + generation.text.length,
    completion_tokens: generation.text.length,
    prompt_tokens_details: generation.reportsCachedTokens ? { ...cached(use), multimodal_tokens: null } : null,
    completion_tokens_details: null,
  };
}

/** A stream's usage chunk leaves out what is null. */
function streamUsage(generation: Generation, use: CacheUse): object {
  return {
    prompt_tokens: generation.prompt.length,
    total_tokens: generation.prompt.length + generation.text.length,
    completion_tokens: generation.text.length,
    ...(generation.reportsCachedTokens ? { prompt_tokens_details: cached(use) } : {}),
  };
}

const cached = (use: CacheUse) => ({ cached_tokens: use.cachedTokens, created_cache_tokens: use.createdCacheTokens });

function head(generation: Generation, object: string): object {
  return { id: generation.id, object, created: generation.created, model: generation.model };
}

const tokenIds = (generation: Generation, text: string): readonly number[] | null =>
  generation.returnTokenIds ? encodeText(text) : null;

const promptIds = (generation: Generation): readonly number[] | null =>
  generation.returnTokenIds ? generation.prompt : null;

/** `/v1/chat/completions` */
export const vllmChat: AnswerShapes = {
  whole(g, use) {
    const message = {
      role: "assistant",
      content: g.text,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    };
    const choice = {
      index: 0,
      message,
      logprobs: null,
      finish_reason: g.finish,
      stop_reason: g.stopReason,
      token_ids: tokenIds(g, g.text),
      routed_experts: null,
    };
    return {
      ...head(g, "chat.completion"),
      choices: [choice],
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: wholeUsage(g, use),
      prompt_logprobs: null,
      prompt_token_ids: promptIds(g),
      prompt_text: null,
      kv_transfer_params: null,
      ec_transfer_params: null,
      metrics: null,
    };
  },
  open(g) {
    const choice = { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [choice],
      prompt_token_ids: promptIds(g),
      prompt_text: null,
    };
  },
  delta(g, text, last) {
    const ends = last && g.finish === "length";
    const choice = {
      index: 0,
      delta: { content: text },
      logprobs: null,
      finish_reason: ends ? g.finish : null,
      ...(ends ? { stop_reason: null } : {}),
      token_ids: tokenIds(g, text),
    };
    return { ...head(g, "chat.completion.chunk"), choices: [choice] };
  },
  close(g) {
    if (g.finish === "length") return undefined;
    const choice = {
      index: 0,
      delta: { content: "" },
      logprobs: null,
      finish_reason: g.finish,
      stop_reason: g.stopReason,
      token_ids: null,
    };
    return { ...head(g, "chat.completion.chunk"), choices: [choice] };
  },
  usage(g, use) {
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [],
      usage: streamUsage(g, use),
      system_fingerprint: FINGERPRINT,
    };
  },
};

/** `/v1/completions`; not among the recorded answers, so its keys are from vLLM's protocol file. */
export const vllmCompletion: AnswerShapes = {
  whole(g, use) {
    const choice = {
      index: 0,
      text: g.text,
      logprobs: null,
      finish_reason: g.finish,
      stop_reason: g.stopReason,
      token_ids: tokenIds(g, g.text),
      prompt_logprobs: null,
      prompt_token_ids: promptIds(g),
    };
    return {
      ...head(g, "text_completion"),
      choices: [choice],
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: wholeUsage(g, use),
      kv_transfer_params: null,
    };
  },
  open: () => undefined,
  delta: (g, text, last) => completionChunk(g, text, last && g.finish === "length" ? g.finish : null, null),
  close: (g) => (g.finish === "length" ? undefined : completionChunk(g, "", g.finish, g.stopReason)),
  usage: (g, use) => ({ ...head(g, "text_completion"), choices: [], usage: streamUsage(g, use) }),
};

function completionChunk(g: Generation, text: string, finish: string | null, stopReason: string | null): object {
  const choice = {
    index: 0,
    text,
    logprobs: null,
    finish_reason: finish,
    stop_reason: stopReason,
    token_ids: tokenIds(g, text),
  };
  return { ...head(g, "text_completion"), choices: [choice] };
}

/** `/v1/models` */
export function vllmModels(options: SimOptions, created: number): object {
  const data = options.models.map((id) => ({
    id,
    object: "model",
    created,
    owned_by: "vllm",
    root: options.modelPath,
    parent: null,
    max_model_len: options.maxModelTokens,
    permission: [],
  }));
  return { object: "list", data };
}

/** `/kv_event_sources`: keyed by data-parallel rank; empty when events are off. */
export function vllmEventSources(options: SimOptions): object {
  const { events } = options;
  if (events === undefined) return {};
  const sources = Array.from({ length: options.ranks ?? 1 }, (_, rank) => {
    const { endpoint, replay, bufferSteps, topic } = rankEndpoints(events, rank);
    const source = {
      enable_kv_cache_events: true,
      publisher: "zmq",
      endpoint,
      replay_endpoint: replay ?? null,
      buffer_steps: bufferSteps,
      hwm: 100_000,
      max_queue_size: 100_000,
      topic,
    };
    return [String(rank), source];
  });
  return Object.fromEntries(sources);
}
