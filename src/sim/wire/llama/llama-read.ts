import { encodeText, renderChat } from "../../tokens.ts";
import type { Choice, Generation } from "../answer-shapes.ts";
import { settleAnswers, stopTexts, wantedJson } from "../settle-answer.ts";
import type { SimOptions } from "../sim-options.ts";
import { LlamaRefusal, missingKey } from "./llama-errors.ts";
import { checkChat, checkFields } from "./llama-fields.ts";

type Body = Readonly<Record<string, unknown>>;

/** What kind of request it is. */
export type LlamaKind = "chat" | "completion" | "native" | "messages" | "responses";

/** Which request it is: what does not come from its body. */
export interface RequestFacts {
  readonly kind: LlamaKind;
  readonly id: string;
  /** Epoch seconds. */
  readonly created: number;
}

/** Token ids of the byte vocabulary. */
export const VOCABULARY = 256;

/** An answer is that long where neither the request nor the context ends it. */
const PLENTY = 4_096;

/**
 * Understand a request and settle its answer.
 * @throws LlamaRefusal
 */
export function readGeneration(value: unknown, options: SimOptions, facts: RequestFacts): Generation {
  const { kind } = facts;
  const body = asChat(kind, value);
  const chat = kind !== "completion" && kind !== "native";
  if (chat) checkChat(body);
  const prompts = chat ? [chatIds(body)] : promptsOf(body);
  checkFields(body, options.limits.maxSequences);
  if (typeof body["grammar"] === "string" && /[^)]\($/.test(body["grammar"].trim())) {
    throw new LlamaRefusal(400, "Failed to initialize samplers: failed to parse grammar");
  }
  for (const prompt of prompts) checkLength(prompt, options);
  const stream = body["stream"] === true;
  const streamOptions = fieldsOf(body["stream_options"]);
  const probs = probabilities(kind, body);
  return {
    id: facts.id,
    created: facts.created,
    model: options.models[0],
    chat,
    prompt: prompts[0]!,
    choices: choicesOf(kind, body, prompts, options),
    stream,
    includeUsage: streamOptions["include_usage"] === true,
    usageInChunks: false,
    returnTokenIds: false,
    reportsCachedTokens: true,
    lora: "",
    // A prompt that must not be found in the cache.
    salt: body["cache_prompt"] === false ? facts.id : "",
    ...(probs > 0 ? { logprobs: { top: probs } } : {}),
    body,
  };
}

const fieldsOf = (value: unknown): Body => (typeof value === "object" && value !== null ? (value as Body) : {});

function choicesOf(
  kind: LlamaKind,
  body: Body,
  prompts: readonly (readonly number[])[],
  options: SimOptions,
): readonly Choice[] {
  const longest = Math.max(...prompts.map((prompt) => prompt.length));
  const room = Math.min(PLENTY, Math.max(1, options.maxModelTokens - longest));
  const asked = body["max_completion_tokens"] ?? body["max_tokens"] ?? body["n_predict"];
  const limit = typeof asked === "number" && asked >= 0 ? Math.min(room, Math.max(1, Math.trunc(asked))) : room;
  const json =
    kind === "native" ? (body["json_schema"] ?? undefined) : kind === "completion" ? undefined : wantedJson(body);
  const made = settleAnswers({
    prompts,
    n: typeof body["n"] === "number" ? body["n"] : 1,
    seed: options.seed + (typeof body["seed"] === "number" ? body["seed"] : 0),
    maxTokens: limit,
    ignoreEos: body["ignore_eos"] === true,
    // `stop: 5` is no list, and is not looked at.
    stop: stopTexts(body["stop"]),
    ...(json === undefined ? {} : { json }),
  });
  return made.map((choice) =>
    choice.prompt.length === 0 ? { ...choice, text: "", finish: "length", stopReason: null } : choice,
  );
}

/** How many likely tokens each place is answered with; 0 for none. A chat's `logprobs` alone means 20. */
function probabilities(kind: LlamaKind, body: Body): number {
  const { logprobs, top_logprobs: top, n_probs: probs } = body;
  const number = (value: unknown): number => (typeof value === "number" ? Math.max(0, Math.trunc(value)) : 0);
  if (typeof probs === "number") return number(probs);
  if (kind === "chat" && logprobs === true) return top === undefined ? 20 : number(top);
  return number(logprobs);
}

function checkLength(prompt: readonly number[], options: SimOptions): void {
  const limit = options.maxModelTokens;
  if (prompt.length < limit) return;
  throw new LlamaRefusal(
    400,
    `request (${prompt.length} tokens) exceeds the available context size (${limit} tokens), try increasing it`,
    { type: "exceed_context_size_error", n_prompt_tokens: prompt.length, n_ctx: limit },
  );
}

/** The token ids of a chat. @throws LlamaRefusal */
export function chatIds(body: Body): readonly number[] {
  // This template has no tools: they do not reach it, as with the recorded model's.
  const { tools: _, ...rest } = body;
  const messages = (body["messages"] as readonly unknown[]).map((message) =>
    typeof message === "object" ? message : {},
  );
  try {
    const rendered = renderChat("llama_cpp", { ...rest, messages });
    if ("bytes" in rendered) return [...rendered.bytes];
    throw new LlamaRefusal(500, rendered.reason);
  } catch (e) {
    if (e instanceof LlamaRefusal) throw e;
    throw new LlamaRefusal(500, e instanceof Error ? e.message : String(e));
  }
}

const NO_PROMPT =
  '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, or a list of mixed strings & tokens.';

/** One prompt or several, as `tokenize_input_prompts` takes them. @throws LlamaRefusal */
function promptsOf(body: Body): readonly (readonly number[])[] {
  if (!("prompt" in body)) throw new LlamaRefusal(400, missingKey("prompt"));
  const { prompt } = body;
  if (!Array.isArray(prompt)) return [idsOf(prompt)];
  if (prompt.length === 0) throw new LlamaRefusal(400, '"prompt" must not be empty');
  const mixed = prompt.some((one) => typeof one === "number");
  return mixed ? [idsOf(prompt)] : prompt.map(idsOf);
}

function idsOf(prompt: unknown): readonly number[] {
  if (typeof prompt === "string") return encodeText(prompt);
  const text = fieldsOf(prompt)["prompt_string"];
  if (typeof text === "string") return encodeText(text);
  if (!Array.isArray(prompt)) throw new LlamaRefusal(400, NO_PROMPT);
  const ids = prompt.flatMap((one: unknown) => {
    if (typeof one === "string") return encodeText(one);
    if (typeof one !== "number") throw new LlamaRefusal(400, NO_PROMPT);
    return [one];
  });
  if (ids.some((id) => id < 0 || id >= VOCABULARY)) throw new LlamaRefusal(400, "Prompt contains invalid tokens");
  return ids;
}

/** Requests of the other APIs, as chats. @throws LlamaRefusal */
function asChat(kind: LlamaKind, value: unknown): Body {
  const body = fieldsOf(value);
  if (kind === "messages") return fromMessages(body);
  return kind === "responses" ? fromResponses(body) : body;
}

/** Anthropic's form. @throws LlamaRefusal */
export function fromMessages(body: Body): Body {
  if (body["messages"] === undefined) throw new LlamaRefusal(500, "'messages' is required");
  const system = body["system"] === undefined ? [] : [{ role: "system", content: body["system"] }];
  const { stop_sequences: stop } = body;
  const messages = [...system, ...(Array.isArray(body["messages"]) ? body["messages"] : [])];
  return { max_tokens: 4_096, ...body, messages, ...(stop === undefined ? {} : { stop }) };
}

function fromResponses(body: Body): Body {
  const { input, instructions, max_output_tokens: limit } = body;
  if (input === undefined) throw new LlamaRefusal(400, "'input' is required");
  if (body["previous_response_id"] !== undefined && body["previous_response_id"] !== null) {
    throw new LlamaRefusal(400, "llama.cpp does not support 'previous_response_id'.");
  }
  if (typeof input !== "string" && !Array.isArray(input)) {
    throw new LlamaRefusal(400, "'input' must be a string or array of objects");
  }
  const asked = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const system = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  return { ...body, messages: [...system, ...asked], ...(limit === undefined ? {} : { max_tokens: limit }) };
}
