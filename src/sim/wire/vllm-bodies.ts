import type { CacheUse } from "../model/engine-model.ts";
import { encodeText } from "../tokens.ts";
import {
  type AnswerShapes,
  answerTokens,
  type Choice,
  chunked,
  type Generation,
  promptTokens,
  type Told,
} from "./answer-shapes.ts";
import { rankEndpoints } from "./kv-publisher.ts";
import { chatLogprobs, completionLogprobs, promptLogprobs } from "./logprobs.ts";
import type { SimOptions } from "./sim-options.ts";

/** Bodies as vLLM 0.32.0 gives them, key for key (`../testdata/vllm`). */
const FINGERPRINT = "vllm-0.32.0-4eba09dd";

/** vLLM's error body. */
export function vllmError(status: number, type: string, message: string, param: string | null = null): object {
  return { error: { message, type, param, code: status } };
}

/** The figures of `usage`, whole answer. Details are null unless the engine was told to report them. */
function wholeUsage(g: Generation, use: CacheUse): object {
  return {
    prompt_tokens: promptTokens(g),
    total_tokens: promptTokens(g) + answerTokens(g),
    completion_tokens: answerTokens(g),
    prompt_tokens_details: g.reportsCachedTokens ? { ...cached(use), multimodal_tokens: null } : null,
    completion_tokens_details: null,
  };
}

/** A stream's usage chunk leaves out what is null. */
function streamUsage(g: Generation, { use }: Told): object {
  return {
    prompt_tokens: promptTokens(g),
    total_tokens: promptTokens(g) + answerTokens(g),
    completion_tokens: answerTokens(g),
    ...(g.reportsCachedTokens ? { prompt_tokens_details: cached(use) } : {}),
  };
}

/** `continuous_usage_stats`: the tokens so far, in each chunk. */
function usageSoFar(g: Generation, { generated }: Told): object {
  if (!g.usageInChunks) return {};
  const tokens = generated.reduce((sum, n) => sum + n, 0);
  const prompt = promptTokens(g);
  return { usage: { prompt_tokens: prompt, total_tokens: prompt + tokens, completion_tokens: tokens } };
}

const cached = (use: CacheUse) => ({ cached_tokens: use.cachedTokens, created_cache_tokens: use.createdCacheTokens });

function head(g: Generation, object: string): object {
  return { id: g.id, object, created: g.created, model: g.model };
}

const tokenIds = (g: Generation, text: string): readonly number[] | null =>
  g.returnTokenIds ? encodeText(text) : null;

const promptIds = (g: Generation): readonly number[] | null => (g.returnTokenIds ? g.prompt : null);

const promptProbabilities = (g: Generation): readonly (object | null)[] | null =>
  g.promptLogprobs === undefined ? null : promptLogprobs(g.prompt, g.promptLogprobs);

function callOf({ call }: Choice): object {
  return { id: call?.id, type: "function", function: { name: call?.name, arguments: call?.arguments } };
}

/** `/v1/chat/completions` */
export const vllmChat: AnswerShapes = chunked({
  whole(g, told) {
    const choices = g.choices.map((choice) => ({
      index: choice.index,
      message: {
        role: "assistant",
        content: choice.call === undefined ? choice.text : "",
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        ...(choice.call === undefined ? {} : { tool_calls: [callOf(choice)] }),
        reasoning: null,
      },
      logprobs: chatLogprobs(g, choice.text),
      finish_reason: finishOf(choice),
      stop_reason: choice.stopReason,
      token_ids: tokenIds(g, choice.text),
      routed_experts: null,
    }));
    return {
      ...head(g, "chat.completion"),
      choices,
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: wholeUsage(g, told.use),
      prompt_logprobs: promptProbabilities(g),
      prompt_token_ids: promptIds(g),
      prompt_text: null,
      kv_transfer_params: told.transfer ?? null,
      ec_transfer_params: null,
      metrics: null,
    };
  },
  open(g, { index }, told) {
    const choice = { index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [choice],
      ...usageSoFar(g, { ...told, generated: [] }),
      prompt_token_ids: promptIds(g),
      prompt_text: null,
    };
  },
  delta(g, choice, at, last, told) {
    const text = choice.text[at]!;
    const ends = last && choice.finish === "length";
    const chunk = {
      index: choice.index,
      delta: choice.call === undefined ? { content: text } : { tool_calls: [callDelta(choice, at, text)] },
      logprobs: chatLogprobs(g, choice.text, at, at + 1),
      finish_reason: ends ? finishOf(choice) : null,
      ...(ends ? { stop_reason: null } : {}),
      token_ids: tokenIds(g, text),
    };
    return { ...head(g, "chat.completion.chunk"), choices: [chunk], ...usageSoFar(g, told) };
  },
  close(g, choice, told) {
    if (choice.finish === "length") return undefined;
    const chunk = {
      index: choice.index,
      delta: { content: "" },
      logprobs: null,
      finish_reason: finishOf(choice),
      stop_reason: choice.stopReason,
      token_ids: null,
    };
    return { ...head(g, "chat.completion.chunk"), choices: [chunk], ...usageSoFar(g, told) };
  },
  usage(g, told) {
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [],
      usage: streamUsage(g, told),
      system_fingerprint: FINGERPRINT,
    };
  },
});

function finishOf({ call, finish }: Choice): string {
  return call !== undefined && finish === "stop" ? "tool_calls" : finish;
}

function callDelta({ call }: Choice, at: number, text: string): object {
  if (at > 0) return { index: 0, function: { arguments: text } };
  return { id: call?.id, type: "function", index: 0, function: { name: call?.name, arguments: text } };
}

/** `/v1/completions` */
export const vllmCompletion: AnswerShapes = chunked({
  whole(g, told) {
    const before = g.echo ?? "";
    const choices = g.choices.map((choice) => ({
      index: choice.index,
      text: before + choice.text,
      logprobs: completionLogprobs(g, before + choice.text, 0, undefined, before !== ""),
      finish_reason: choice.finish,
      stop_reason: choice.stopReason,
      token_ids: tokenIds(g, choice.text),
      prompt_logprobs: promptProbabilities(g),
      prompt_token_ids: promptIds(g),
    }));
    return {
      ...head(g, "text_completion"),
      choices,
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: wholeUsage(g, told.use),
      kv_transfer_params: told.transfer ?? null,
    };
  },
  delta(g, choice, at, last, told) {
    const ends = last && choice.finish === "length";
    const text = at === 0 ? (g.echo ?? "") + choice.text[at] : choice.text[at]!;
    return completionChunk(g, choice, { text, at }, ends ? choice.finish : null, told);
  },
  close: (g, choice, told) =>
    choice.finish === "length" ? undefined : completionChunk(g, choice, { text: "" }, choice.finish, told),
  usage: (g, told) => ({ ...head(g, "text_completion"), choices: [], usage: streamUsage(g, told) }),
});

function completionChunk(
  g: Generation,
  choice: Choice,
  part: { readonly text: string; readonly at?: number },
  finish: string | null,
  told: Told,
): object {
  const { text, at } = part;
  const chunk = {
    index: choice.index,
    text,
    logprobs: at === undefined ? null : completionLogprobs(g, choice.text, at, at + 1),
    finish_reason: finish,
    stop_reason: finish === "stop" ? choice.stopReason : null,
    token_ids: tokenIds(g, text),
  };
  return { ...head(g, "text_completion"), choices: [chunk], ...usageSoFar(g, told) };
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
