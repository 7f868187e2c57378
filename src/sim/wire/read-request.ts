import { makeAnswer } from "../text.ts";
import { encodeText, renderChat } from "../tokens.ts";
import type { Generation } from "./answer-shapes.ts";
import type { SimOptions } from "./sim-options.ts";

type Body = Readonly<Record<string, unknown>>;

/** Why a request is refused, in the engine-neutral part. */
export interface Refusal {
  readonly why: "malformed" | "unknown-model" | "too-long" | "not-simulated";
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
  const asked = typeof body["model"] === "string" ? body["model"] : undefined;
  if (!facts.anyModel && asked !== undefined && !options.models.includes(asked)) {
    const known = options.models.map((name) => `\`${name}\``).join(", ");
    return refuse("unknown-model", `The model \`${asked}\` does not exist. Served: ${known}`, "model");
  }
  const prompt = kind === "chat" ? chatPrompt(options.kind, body) : completionPrompt(body);
  if (typeof prompt === "string") return refuse("malformed", prompt, kind === "chat" ? "messages" : "prompt");
  if (typeof body["n"] === "number" && body["n"] > 1) return refuse("not-simulated", "n above 1 is not simulated", "n");
  return withAnswer(kind, body, prompt, asked, options, facts);
}

function withAnswer(
  kind: "chat" | "completion",
  body: Body,
  prompt: readonly number[],
  asked: string | undefined,
  options: SimOptions,
  facts: RequestFacts,
): ReadResult {
  const room = options.maxModelTokens - prompt.length;
  const wanted = limitOf(body, kind === "chat" ? undefined : 16);
  if (typeof wanted === "string") return refuse("malformed", wanted, "max_tokens");
  if (room < 1 || (wanted !== undefined && wanted > room))
    return refuse("too-long", tooLong(prompt.length, wanted, options), null);
  const answer = makeAnswer({
    prompt,
    seed: options.seed + (typeof body["seed"] === "number" ? body["seed"] : 0),
    maxTokens: wanted ?? room,
    ...(typeof body["min_tokens"] === "number" ? { minTokens: body["min_tokens"] } : {}),
    ignoreEos: body["ignore_eos"] === true,
    stop: [body["stop"]].flat().filter((s): s is string => typeof s === "string"),
  });
  const streamOptions = body["stream_options"] as Body | null | undefined;
  return {
    generation: {
      ...facts,
      model: facts.anyModel ? (asked ?? options.models[0]) : options.models[0],
      chat: kind === "chat",
      prompt,
      text: answer.text,
      finish: answer.finish,
      stopReason: answer.stopReason ?? null,
      stream: body["stream"] === true,
      includeUsage: streamOptions?.["include_usage"] === true,
      returnTokenIds: body["return_token_ids"] === true,
      reportsCachedTokens: options.reportsCachedTokens,
      lora: "",
      salt: typeof body["cache_salt"] === "string" ? body["cache_salt"] : "",
    },
  };
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

/** A completion's prompt: text, or token ids. */
function completionPrompt(body: Body): readonly number[] | string {
  const { prompt } = body;
  const one: unknown =
    Array.isArray(prompt) && prompt.length === 1 && typeof prompt[0] !== "number" ? prompt[0] : prompt;
  const ids = typeof one === "string" ? encodeText(one) : one;
  if (!Array.isArray(ids) || !ids.every((id) => Number.isInteger(id) && id >= 0)) {
    return "prompt should be a string or a list of token ids";
  }
  return ids.length === 0 ? "prompt must not be empty" : (ids as number[]);
}

function limitOf(body: Body, fallback: number | undefined): number | undefined | string {
  const limit = body["max_completion_tokens"] ?? body["max_tokens"] ?? fallback;
  if (limit === undefined || limit === null) return undefined;
  if (typeof limit !== "number" || !Number.isInteger(limit)) return "max_tokens should be a valid integer";
  return limit < 1 ? `max_tokens must be at least 1, got ${limit}.` : limit;
}

function tooLong(promptTokens: number, wanted: number | undefined, options: SimOptions): string {
  const limit = options.maxModelTokens;
  if (options.kind === "sglang") {
    return promptTokens >= limit
      ? `The input (${promptTokens} tokens) is longer than the model's context length (${limit} tokens).`
      : `Requested token count exceeds the model's maximum context length of ${limit} tokens. You requested a total of ${promptTokens + (wanted ?? 1)} tokens.`;
  }
  return (
    `This model's maximum context length is ${limit} tokens. However, you requested ${wanted ?? 1} output tokens and your prompt ` +
    `contains at least ${promptTokens} input tokens, for a total of at least ${promptTokens + (wanted ?? 1)} tokens. ` +
    "Please reduce the length of the input prompt or the number of requested output tokens."
  );
}
