import { isObject } from "./answer.ts";

type Json = Record<string, unknown>;

/** Members of a request whose answer has fields that a stream does not carry, or carries in another form. */
const NOT_FOLDABLE = [
  "stream_options",
  "best_of",
  "echo",
  "return_tokens",
  "return_progress",
  "timings_per_token",
  "response_fields",
  "verbose",
] as const;

/**
 * May this non-streaming request be asked for as a stream and be folded into the same answer? When in doubt, no: then it
 * goes as it came, and a client that leaves does not stop the engine.
 */
export function canFold(request: Readonly<Json>): boolean {
  if (request["stream"] !== undefined && request["stream"] !== false && request["stream"] !== null) return false;
  const { prompt } = request;
  // Several prompts in one request: their usage is summed in ways of the engine's own.
  if (Array.isArray(prompt) && !prompt.every((p) => typeof p === "number")) return false;
  if (endsWithAssistant(request["messages"])) return false;
  return NOT_FOLDABLE.every((key) => request[key] === undefined);
}

/** llama-server puts the begun answer in front of a whole one, but not of a stream (seen on xllamacpp 2026.10). */
function endsWithAssistant(messages: unknown): boolean {
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  return isObject(last) && last["role"] === "assistant";
}

const MAX_CHOICES = 1_024;
const MAX_CALLS = 1_024;

/**
 * Folds the chunks of a streamed chat or text completion into the body of the non-streaming answer: text and tool-call
 * arguments are joined, log probabilities appended, per choice; `usage`, `timings` and what else stands at the top are
 * taken from the last chunk that has them.
 */
export class AnswerFolder {
  readonly #top: Json = {};
  readonly #choices = new Map<number, Json>();

  /** More choices than any request asks for, or more calls than any model makes: looking them up takes their square. */
  get overflowed(): boolean {
    if (this.#choices.size > MAX_CHOICES) return true;
    for (const { message } of this.#choices.values()) {
      const calls = isObject(message) ? message["tool_calls"] : undefined;
      if (Array.isArray(calls) && calls.length > MAX_CALLS) return true;
    }
    return false;
  }

  /** Take one chunk. */
  add(chunk: unknown): void {
    if (!isObject(chunk)) return;
    for (const [key, value] of Object.entries(chunk)) {
      if (key === "choices") continue;
      // `usage: null` on each chunk is how some engines say "not yet".
      if (value !== null || !(key in this.#top)) define(this.#top, key, value);
    }
    if (!Array.isArray(chunk["choices"])) return;
    for (const choice of chunk["choices"]) if (isObject(choice)) this.#addChoice(choice);
  }

  /** The answer; undefined when no choice came or one did not end: then the stream was cut. */
  result(): Json | undefined {
    if (this.#choices.size === 0) return undefined;
    const choices = [...this.#choices.values()].sort((a, b) => Number(a["index"]) - Number(b["index"]));
    if (choices.some((c) => (c["finish_reason"] ?? null) === null)) return undefined;
    const object = this.#top["object"] === "text_completion" ? "text_completion" : "chat.completion";
    return { ...this.#top, object, choices: choices.map(settleMessage) };
  }

  #addChoice(chunk: Readonly<Json>): void {
    const index = typeof chunk["index"] === "number" ? chunk["index"] : 0;
    let choice = this.#choices.get(index);
    if (choice === undefined) this.#choices.set(index, (choice = { index }));
    for (const [key, value] of Object.entries(chunk)) {
      if (key === "index") continue;
      if (key === "delta") choice["message"] = merge(choice["message"], value);
      else if (key === "finish_reason") choice[key] = value ?? choice[key] ?? null;
      else define(choice, key, merge(Object.hasOwn(choice, key) ? choice[key] : undefined, value));
    }
  }
}

/** A message without text has `content: ""`, but null beside tool calls; the `index` of tool calls is the stream's only. */
function settleMessage(choice: Json): Json {
  const { message } = choice;
  if (!isObject(message)) return choice;
  const calls = message["tool_calls"];
  const settled: Json = { ...message, content: message["content"] ?? (Array.isArray(calls) ? null : "") };
  if (Array.isArray(calls)) {
    settled["tool_calls"] = calls.map((call: Json) => {
      const { index: _index, ...rest } = call;
      return rest;
    });
  }
  return { ...choice, message: settled };
}

/** Members that name a thing: sent again they stay, they are not joined. */
const NAMES = new Set(["role", "id", "type", "name"]);

/** Joins `next` to `old`, which is the folder's own and may be changed: copying it for each token would take its square. */
function merge(old: unknown, next: unknown, key = ""): unknown {
  if (next === undefined || next === null) return old ?? next;
  if (old === undefined || old === null) return key === "tool_calls" ? mergeCalls([], next) : next;
  if (typeof old === "string" && typeof next === "string") return NAMES.has(key) ? next || old : old + next;
  if (key === "tool_calls") return mergeCalls(old, next);
  if (Array.isArray(old) && Array.isArray(next)) {
    for (const item of next) old.push(item);
    return old;
  }
  if (isObject(old) && isObject(next)) {
    const own = old as Json;
    for (const k in next) define(own, k, merge(Object.hasOwn(own, k) ? own[k] : undefined, next[k], k));
    return own;
  }
  return next;
}

/** Set a member, whatever its name: `__proto__` is one like any other. */
function define(object: Json, key: string, value: unknown): void {
  if (key === "__proto__")
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}

/** Pieces of tool calls belong together by their `index`. */
function mergeCalls(old: unknown, next: unknown): unknown {
  if (!Array.isArray(old) || !Array.isArray(next)) return next;
  const own = old as Json[];
  for (const piece of next) {
    if (!isObject(piece)) continue;
    const at = own.findLastIndex((call) => call["index"] === piece["index"]);
    if (at < 0 || piece["index"] === undefined) own.push({ ...piece });
    else own[at] = merge(own[at], piece) as Json;
  }
  return own;
}
