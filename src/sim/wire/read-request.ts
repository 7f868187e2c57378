import { decodeIds, encodeText, renderChat } from "../tokens.ts";
import type { Generation } from "./answer-shapes.ts";
import { settleAnswers, stopTexts, wantedCall, wantedJson } from "./settle-answer.ts";
import type { SimOptions } from "./sim-options.ts";

type Body = Readonly<Record<string, unknown>>;

/** Why a request is refused, in the engine-neutral part. */
export interface Refusal {
  readonly why: "malformed" | "out-of-range" | "unknown-model" | "too-long";
  readonly message: string;
  readonly param: string | null;
}

export type ReadResult = { readonly generation: Generation } | { readonly refusal: Refusal };

/** Which request it is: what does not come from its body. */
export interface RequestFacts {
  readonly id: string;
  /** Epoch seconds. */
  readonly created: number;
  /** SGLang echoes whatever name was asked. */
  readonly anyModel: boolean;
  /** Of a tool call. */
  readonly callId: string;
}

const refuse = (why: Refusal["why"], message: string, param: string | null = null): ReadResult => ({
  refusal: { why, message, param },
});

/** Understand a chat or completion request and settle its answer. */
export function readRequest(
  kind: "chat" | "completion",
  value: unknown,
  options: SimOptions,
  facts: RequestFacts,
): ReadResult {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse("malformed", "Input should be a valid dictionary", "body");
  }
  const body = value as Body;
  // An empty name is none (seen on vLLM 0.32.0).
  const asked = typeof body["model"] === "string" && body["model"] !== "" ? body["model"] : undefined;
  if (!facts.anyModel && asked !== undefined && ![...options.models, ...(options.loras ?? [])].includes(asked)) {
    const known = [...options.models, ...(options.loras ?? [])].join(", ");
    return refuse("unknown-model", `The model \`${asked}\` does not exist. Valid aliases: ${known}.`, "model");
  }
  const prompts = kind === "chat" ? promptOfChat(options.kind, body) : completionPrompts(body);
  if (typeof prompts === "string") return refuse("malformed", prompts, kind === "chat" ? "messages" : "prompt");
  return withAnswer(kind, body, prompts, asked, options, facts);
}

function promptOfChat(kind: SimOptions["kind"], body: Body): readonly (readonly number[])[] | string {
  const ids = chatPrompt(kind, body);
  return typeof ids === "string" ? ids : [ids];
}

function withAnswer(
  kind: "chat" | "completion",
  body: Body,
  prompts: readonly (readonly number[])[],
  asked: string | undefined,
  options: SimOptions,
  facts: RequestFacts,
): ReadResult {
  const longest = Math.max(...prompts.map((prompt) => prompt.length));
  const room = options.maxModelTokens - longest;
  const wanted = limitOf(kind, body, facts.anyModel);
  if (typeof wanted === "string") return refuse("out-of-range", wanted, "max_tokens");
  if (room < 1 || (wanted !== undefined && wanted > room)) {
    const { message, param } = tooLong(longest, wanted, options);
    return refuse("too-long", message, param);
  }
  const json = wantedJson(body);
  const call = kind === "chat" ? wantedCall(body, facts.callId) : undefined;
  const choices = settleAnswers({
    prompts,
    n: typeof body["n"] === "number" ? Math.max(1, body["n"]) : 1,
    seed: options.seed + (typeof body["seed"] === "number" ? body["seed"] : 0),
    // A prompt alone (`echo` with `max_tokens: 0`) is computed by way of one token, which is not told.
    maxTokens: Math.max(1, wanted ?? room),
    ...(typeof body["min_tokens"] === "number" ? { minTokens: body["min_tokens"] } : {}),
    ignoreEos: body["ignore_eos"] === true,
    stop: stopTexts(body["stop"]),
    keepsStop: body["include_stop_str_in_output"] === true,
    ...(json === undefined ? {} : { json }),
    ...(call === undefined ? {} : { call }),
  });
  const streamOptions = body["stream_options"] as Body | null | undefined;
  const logprobs = wantedLogprobs(kind, body);
  return {
    generation: {
      id: facts.id,
      created: facts.created,
      model: facts.anyModel ? (asked ?? options.models[0]) : options.models[0],
      chat: kind === "chat",
      prompt: prompts[0]!,
      choices,
      stream: body["stream"] === true,
      includeUsage: streamOptions?.["include_usage"] === true,
      usageInChunks: streamOptions?.["continuous_usage_stats"] === true,
      returnTokenIds: body["return_token_ids"] === true,
      reportsCachedTokens: options.reportsCachedTokens,
      lora: asked !== undefined && options.loras?.includes(asked) === true ? asked : "",
      salt: typeof body["cache_salt"] === "string" ? body["cache_salt"] : "",
      ...(logprobs === undefined ? {} : { logprobs }),
      ...(typeof body["prompt_logprobs"] === "number" ? { promptLogprobs: body["prompt_logprobs"] } : {}),
      ...(kind === "completion" && body["echo"] === true ? { echo: decodeIds(prompts[0]!) } : {}),
      body,
    },
  };
}

/** What is asked of probabilities: `logprobs: true` and `top_logprobs` in chats, `logprobs: N` in completions. */
function wantedLogprobs(kind: "chat" | "completion", body: Body): { readonly top: number } | undefined {
  const { logprobs, top_logprobs: top } = body;
  if (kind === "completion") return typeof logprobs === "number" ? { top: logprobs } : undefined;
  return logprobs === true ? { top: typeof top === "number" ? top : 0 } : undefined;
}

/** The token ids of a chat, or what is wrong with it. */
export function chatPrompt(kind: SimOptions["kind"], body: Body): readonly number[] | string {
  const { messages } = body;
  if (!Array.isArray(messages)) return "Input should be a valid list";
  if (messages.length === 0) return "messages must not be empty";
  if (
    !messages.every((m: unknown) => typeof m === "object" && m !== null && "role" in m && typeof m.role === "string")
  ) {
    return "each message needs a role";
  }
  try {
    const rendered = renderChat(kind, body);
    return "bytes" in rendered ? [...rendered.bytes] : rendered.reason;
  } catch (e) {
    return e instanceof Error ? e.message : String(e);
  }
}

/** A completion's prompts: text or token ids, or a list of either. */
function completionPrompts(body: Body): readonly (readonly number[])[] | string {
  const { prompt } = body;
  if (!Array.isArray(prompt) || prompt.length === 0 || typeof prompt[0] === "number") {
    const ids = completionPrompt(prompt);
    return typeof ids === "string" ? ids : [ids];
  }
  const all = prompt.map(completionPrompt);
  const wrong = all.find((ids) => typeof ids === "string");
  return wrong ?? (all as (readonly number[])[]);
}

function completionPrompt(prompt: unknown): readonly number[] | string {
  const ids = typeof prompt === "string" ? encodeText(prompt) : prompt;
  if (!Array.isArray(ids) || !ids.every((id) => Number.isInteger(id) && id >= 0)) {
    return "prompt should be a string or a list of token ids";
  }
  return ids.length === 0 ? "prompt must not be empty" : (ids as number[]);
}

/** Completions are 16 tokens long where nothing else is said; echoing a prompt alone needs none. */
function limitOf(kind: "chat" | "completion", body: Body, anyModel: boolean): number | undefined | string {
  const limit = body["max_completion_tokens"] ?? body["max_tokens"] ?? (kind === "chat" ? undefined : 16);
  if (limit === undefined || limit === null) return undefined;
  if (typeof limit !== "number" || !Number.isInteger(limit)) return "max_tokens should be a valid integer";
  // SGLang computes a prompt alone, without an answer, too.
  const least = (kind === "completion" && body["echo"] === true) || anyModel ? 0 : 1;
  if (limit >= least) return limit;
  return `max_tokens must be at least 1, got ${limit}. (parameter=max_tokens, value=${limit})`;
}

function tooLong(
  promptTokens: number,
  wanted: number | undefined,
  options: SimOptions,
): { readonly message: string; readonly param: string | null } {
  const limit = options.maxModelTokens;
  const total = promptTokens + (wanted ?? 1);
  if (options.kind === "sglang") {
    if (wanted !== undefined && wanted > limit) {
      return {
        message: `max_completion_tokens is too large: ${wanted}.This model supports at most ${limit} completion tokens.`,
        param: null,
      };
    }
    const message =
      promptTokens >= limit
        ? `The input (${promptTokens} tokens) is longer than the model's context length (${limit} tokens).`
        : `Requested token count exceeds the model's maximum context length of ${limit} tokens. You requested a total of ${total} tokens: ` +
          `${promptTokens} tokens from the input messages and ${total - promptTokens} tokens for the completion. ` +
          "Please reduce the number of tokens in the input messages or the completion to fit within the limit.";
    return { message, param: null };
  }
  if (wanted !== undefined && wanted > limit) {
    const message = `max_tokens=${wanted} cannot be greater than max_model_len=${limit}. Please request fewer output tokens.`;
    return { message: `${message} (parameter=max_tokens, value=${wanted})`, param: "max_tokens" };
  }
  const head = `This model's maximum context length is ${limit} tokens. However, `;
  if (promptTokens >= limit) {
    // It counts no further than that.
    const message =
      `${head}your prompt contains at least ${limit + 1} input tokens, which exceeds this limit even without any output tokens. ` +
      "Please reduce the length of the input prompt.";
    return { message: `${message} (parameter=input_tokens, value=${limit + 1})`, param: "input_tokens" };
  }
  const message =
    `${head}you requested ${wanted ?? 1} output tokens and your prompt contains at least ${promptTokens} input tokens, for a total of ` +
    `at least ${total} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`;
  return { message: `${message} (parameter=input_tokens, value=${promptTokens})`, param: "input_tokens" };
}
