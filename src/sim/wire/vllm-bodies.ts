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

/** The reason is on the last token, but for an end of its own, which is a token without a text. */
const endsWithText = ({ finish, stopReason }: Choice): boolean => finish === "length" || stopReason !== null;

/** `continuous_usage_stats`: the tokens so far, in each chunk. */
function usageSoFar(g: Generation, { generated }: Told): object {
  if (!g.usageInChunks) return {};
  const tokens = generated.reduce((sum, n) => sum + n, 0);
  const prompt = promptTokens(g);
  const usage = { prompt_tokens: prompt, total_tokens: prompt + tokens, completion_tokens: tokens };
  return { usage: { ...usage, completion_tokens_details: null } };
}

/** The last chunk has it, unless a usage chunk follows. */
const fingerprint = (g: Generation, ends: boolean): object =>
  ends && !g.includeUsage ? { system_fingerprint: FINGERPRINT } : {};

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
    const ends = last && endsWithText(choice);
    const chunk = {
      index: choice.index,
      delta:
        choice.call === undefined ? { content: text } : { content: null, tool_calls: [callDelta(choice, at, text)] },
      logprobs: chatLogprobs(g, choice.text, at, at + 1),
      finish_reason: ends ? finishOf(choice) : null,
      ...(ends ? { stop_reason: choice.stopReason } : {}),
      token_ids: tokenIds(g, text),
    };
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [chunk],
      ...fingerprint(g, ends),
      ...usageSoFar(g, told),
    };
  },
  close(g, choice, told) {
    if (endsWithText(choice)) return undefined;
    const chunk = {
      index: choice.index,
      delta: choice.call === undefined ? { content: "" } : {},
      logprobs: null,
      finish_reason: finishOf(choice),
      stop_reason: choice.stopReason,
      token_ids: null,
    };
    return {
      ...head(g, "chat.completion.chunk"),
      choices: [chunk],
      ...fingerprint(g, true),
      ...usageSoFar(g, told),
    };
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

/** A tool that had to be called ends as any answer (seen on 0.32.0); `tool_calls` is for those that chose to. */
const finishOf = ({ finish }: Choice): string => finish;

function callDelta({ call }: Choice, at: number, text: string): object {
  if (at > 0) return { index: 0, function: { arguments: text } };
  return { id: call?.id, type: "function", index: 0, function: { name: call?.name } };
}

/** `/v1/completions` */
export const vllmCompletion: AnswerShapes = chunked({
  whole(g, told) {
    const before = g.echo ?? "";
    // Log probabilities of an echoed prompt are its prompt's (seen on 0.32.0).
    const prompt = before !== "" && g.logprobs !== undefined ? promptLogprobs(g.prompt, g.logprobs.top) : undefined;
    const choices = g.choices.map((choice) => {
      const text = g.body["max_tokens"] === 0 ? "" : choice.text;
      return {
        index: choice.index,
        text: before + text,
        logprobs: completionLogprobs(g, before + text, 0, undefined, before !== ""),
        finish_reason: choice.finish,
        stop_reason: choice.stopReason,
        token_ids: tokenIds(g, text),
        prompt_logprobs: prompt ?? promptProbabilities(g),
        prompt_token_ids: promptIds(g),
        routed_experts: null,
      };
    });
    return {
      ...head(g, "text_completion"),
      choices,
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: completionUsage(g, told),
      kv_transfer_params: told.transfer ?? null,
      ec_transfer_params: null,
      metrics: null,
    };
  },
  delta(g, choice, at, last, told) {
    const ends = last && endsWithText(choice);
    // An echoed prompt comes in one chunk with the first token.
    const before = at === 0 ? (g.echo ?? "") : "";
    const whole = (g.echo ?? "") + choice.text;
    const from = before === "" ? whole.length - choice.text.length + at : 0;
    return completionChunk(
      g,
      choice,
      {
        text: before + choice.text[at],
        promptIds: before === "" ? (at === 0 ? promptIds(g) : null) : g.prompt,
        logprobs: completionLogprobs(g, whole, from, whole.length - choice.text.length + at + 1, before !== ""),
      },
      ends ? choice.finish : null,
      told,
    );
  },
  close: (g, choice, told) =>
    endsWithText(choice)
      ? undefined
      : completionChunk(g, choice, { text: "", promptIds: null, logprobs: null }, choice.finish, told),
  usage: (g, told) => ({
    ...head(g, "text_completion"),
    choices: [],
    usage: streamCompletionUsage(g, told),
    system_fingerprint: FINGERPRINT,
  }),
});

/** Completions do not tell what they added to the cache. */
function completionUsage(g: Generation, { use }: Told): object {
  const details = { cached_tokens: use.cachedTokens, created_cache_tokens: null, multimodal_tokens: null };
  return { ...wholeUsage(g, use), prompt_tokens_details: g.reportsCachedTokens ? details : null };
}

function streamCompletionUsage(g: Generation, told: Told): object {
  const details = { prompt_tokens_details: { cached_tokens: told.use.cachedTokens } };
  return { ...streamUsage(g, told), ...(g.reportsCachedTokens ? details : {}) };
}

function completionChunk(
  g: Generation,
  choice: Choice,
  part: { readonly text: string; readonly promptIds: readonly number[] | null; readonly logprobs: object | null },
  finish: string | null,
  told: Told,
): object {
  const chunk = {
    index: choice.index,
    text: part.text,
    logprobs: part.logprobs,
    finish_reason: finish,
    stop_reason: finish === "stop" ? choice.stopReason : null,
    prompt_token_ids: part.promptIds,
    token_ids: tokenIds(g, part.text),
  };
  return {
    ...head(g, "text_completion"),
    choices: [chunk],
    ...fingerprint(g, finish !== null),
    ...usageSoFar(g, told),
  };
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
    permission: [permission(id, created)],
  }));
  const [parent] = options.models;
  const loras = (options.loras ?? []).map((id) => ({
    ...{ id, object: "model", created, owned_by: "vllm", root: `/loras/${id}`, parent, max_model_len: null },
    permission: [permission(id, created)],
  }));
  return { object: "list", data: [...data, ...loras] };
}

function permission(model: string, created: number): object {
  return {
    id: `modelperm-${Buffer.from(model).toString("hex").slice(0, 16).padEnd(16, "0")}`,
    object: "model_permission",
    created,
    allow_create_engine: false,
    allow_sampling: true,
    allow_logprobs: true,
    allow_search_indices: false,
    allow_view: true,
    allow_fine_tuning: false,
    organization: "*",
    group: null,
    is_blocking: false,
  };
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
