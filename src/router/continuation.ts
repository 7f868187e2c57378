import type { BodyEdits } from "../engines/disaggregation.ts";
import { isObject } from "./answer.ts";
import type { ReadRequest } from "./read.ts";

/**
 * Members with which a request means the same when its answer goes on elsewhere: what an engine makes of the text so far and
 * of these is what it would have made. All others (tools, grammars, prompt log probabilities, …) keep a stream from being continued.
 */
const HARMLESS: ReadonlySet<string> = new Set([
  ...[
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "user",
    "metadata",
    "store",
    "service_tier",
    "priority",
  ],
  ...[
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
  ],
  ...["stop", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "logit_bias"],
  ...["presence_penalty", "frequency_penalty", "repetition_penalty", "spaces_between_special_tokens", "cache_salt"],
  ...["request_id", "cache_prompt", "chat_template_kwargs", "logprobs", "top_logprobs"],
]);

type Json = Readonly<Record<string, unknown>>;

const isUnset = (v: unknown): boolean => v === undefined || v === null;

/** Could the answer to this request go on at another engine, once some of its text is there? */
export function mayContinue({ kind, stream, json, unmatched }: ReadRequest): boolean {
  if (!stream || json === undefined || unmatched !== undefined) return false;
  const { n, best_of: bestOf, tools, tool_choice: choice, response_format: format } = json;
  if (!(isUnset(n) || n === 1) || !(isUnset(bestOf) || bestOf === 1)) return false;
  const noTools = isUnset(tools) || (Array.isArray(tools) && tools.length === 0) || choice === "none";
  if (!noTools || !(isUnset(format) || (isObject(format) && format["type"] === "text"))) return false;
  const seen = new Set(["n", "best_of", "tools", "tool_choice", "response_format"]);
  for (const key in json) if (!HARMLESS.has(key) && !seen.has(key) && !isUnset(json[key])) return false;
  if (kind === "completion") return typeof json["prompt"] === "string";
  return kind === "chat" && endsWithUser(json["messages"]);
}

/** An answer to an assistant's own words is a continuation already: what is added to them is not known to be told apart. */
function endsWithUser(messages: unknown): boolean {
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  return isObject(last) && (last["role"] === "user" || last["role"] === "tool");
}

const SPACE_AT_END = /\s+$/;

/**
 * A stream of chunks that may begin at one engine and end at another: what was generated so far, and what must be changed in the
 * chunks of a later engine so that the client sees one answer.
 */
export class ContinuedStream {
  /** All text that the client has. */
  text = "";
  /** Chunks with text: about as many tokens. */
  tokens = 0;
  /** Engines that have worked on it. */
  legs = 1;
  #onlyText = true;
  #head: Json | undefined;
  /** White space at the end of what was sent to the next engine, which makes it anew. */
  #owed = "";
  #tokensBefore = 0;
  /** All tokens that the client allowed are there: only the finish and the usage are wanted of the next engine. */
  #full = false;

  /** There is something to go on from, and all of it is text that can be sent back. */
  get usable(): boolean {
    return this.#onlyText;
  }

  /**
   * Take one chunk of the stream.
   * @returns what the client gets: the same object for the chunk as it is, another one, or undefined for nothing
   */
  take(chunk: unknown): unknown {
    if (!isObject(chunk)) return chunk;
    this.#head ??= chunk;
    const { choices } = chunk;
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
    if (Array.isArray(choices) && choices.length > 1) this.#onlyText = false;
    if (isObject(choice)) return this.#choice(chunk, choice);
    return this.legs === 1 ? chunk : this.#own(chunk);
  }

  /** The request for the next engine: what changes in its body. */
  nextEdits({ kind, json }: ReadRequest, members: BodyEdits): BodyEdits {
    this.legs++;
    this.#tokensBefore = this.tokens;
    this.#owed = SPACE_AT_END.exec(this.text)?.[0] ?? "";
    const sent = this.text.slice(0, this.text.length - this.#owed.length);
    const edits: Record<string, string | undefined> = {};
    for (const key of ["max_tokens", "max_completion_tokens", "min_tokens"]) {
      const limit = json?.[key];
      if (typeof limit !== "number") continue;
      const least = key === "min_tokens" ? 0 : 1;
      if (least === 1 && limit <= this.tokens) this.#full = true;
      edits[key] = JSON.stringify(Math.max(least, limit - this.tokens));
    }
    // Nothing was generated yet but perhaps a role: the same request again.
    if (sent === "") return edits;
    if (kind === "completion") return { ...edits, prompt: JSON.stringify(String(json?.["prompt"]) + sent) };
    const messages = [...((json?.["messages"] as readonly unknown[]) ?? []), { role: "assistant", content: sent }];
    return { ...edits, ...members, messages: JSON.stringify(messages) };
  }

  #choice(chunk: Json, choice: Json): unknown {
    const { delta, finish_reason: finish } = choice;
    const part = isObject(delta) ? delta : choice;
    const key = isObject(delta) ? "content" : "text";
    const content = part[key];
    if (isObject(delta) && !isPlain(delta)) this.#onlyText = false;
    if (this.legs === 1) {
      this.#count(content);
      return chunk;
    }
    const text = typeof content === "string" && !this.#full ? this.#pay(content) : "";
    this.#count(text);
    // Another engine's role, or white space that the client has.
    if (text === "" && isUnset(finish) && isUnset(chunk["usage"])) return undefined;
    const { role: _role, ...rest } = part;
    const said = isUnset(content) ? rest : { ...rest, [key]: text };
    const end = this.#full && !isUnset(finish) ? { finish_reason: "length" } : {};
    const shown = isObject(delta) ? { ...choice, delta: said, ...end } : { ...choice, ...said, ...end };
    return this.#own({ ...chunk, choices: [shown] });
  }

  #count(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.text += text;
    this.tokens++;
  }

  /** Without the white space that the client has already. */
  #pay(text: string): string {
    let same = 0;
    while (same < this.#owed.length && same < text.length && text[same] === this.#owed[same]) same++;
    this.#owed = same === text.length ? this.#owed.slice(same) : "";
    return text.slice(same);
  }

  /** Under the name of the first engine's answer, with the usage of all of it. */
  #own(chunk: Json): Json {
    const { id, created, model } = this.#head ?? {};
    return {
      ...chunk,
      ...(id === undefined ? {} : { id }),
      ...(created === undefined ? {} : { created }),
      ...(model === undefined ? {} : { model }),
      ...(isObject(chunk["usage"]) ? { usage: this.#usage(chunk["usage"]) } : {}),
    };
  }

  /** What the last engine took for prompt was generated in part. The sum is exact, its parts are as exact as the count of tokens. */
  #usage(usage: Json): Json {
    const { prompt_tokens: prompt, completion_tokens: completion } = usage;
    if (typeof prompt !== "number") return usage;
    const before = Math.min(this.#tokensBefore, prompt);
    const first = prompt - before;
    if (this.#full) return { ...usage, prompt_tokens: first, completion_tokens: before, total_tokens: prompt };
    return {
      ...usage,
      prompt_tokens: first,
      ...(typeof completion === "number" ? { completion_tokens: completion + before } : {}),
    };
  }
}

/** Nothing but a role and text is generated. */
function isPlain(delta: Json): boolean {
  for (const key in delta) {
    if (key === "role" || key === "content") continue;
    const value = delta[key];
    if (!isUnset(value) && value !== "" && !(Array.isArray(value) && value.length === 0)) return false;
  }
  return true;
}
