import { CgnError } from "../../core/errors.ts";

export type Json = Record<string, unknown>;

/** What an answer's conversion must know of its request. */
export interface AskedFor {
  /** Of the exchange: ids of the answer are made from it where the engine gives none. */
  readonly id: string;
  /** The name that the client used. */
  readonly model: string;
  /** The request as the client sent it. */
  readonly json: Readonly<Json>;
}

/** Makes the events of another API from the chunks of one chat completion. */
export interface StreamConversion {
  /** Take a chunk; @returns what to send now, as server-sent events. */
  chunk(chunk: Readonly<Json>): string;
  /** The stream ended well. @returns the events that end the answer */
  end(): string;
}

/** An API that an engine lacks, spoken through its chat completions. Keeps nothing between requests. */
export interface Conversion {
  /**
   * The request as a chat completion.
   * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED for what chat completions cannot say
   */
  request(json: Readonly<Json>): Json;
  /** A whole chat completion as the API's answer. */
  whole(chat: Readonly<Json>, asked: AskedFor): Json;
  stream(asked: AskedFor): StreamConversion;
}

export function isObject(v: unknown): v is Json {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

/** One server-sent event with a name, as both APIs have them. */
export function namedEvent(data: Readonly<Json> & { readonly type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** @param is with the member's place, for example `messages[2].content[0] is a "container_upload"` */
export function noCounterpart(is: string, should: string): CgnError {
  const message = `Cannot convert the request for an engine that has only chat completions: ${is}. ${should}`;
  return new CgnError("NOT_SUPPORTED", message, {}) as CgnError;
}

export function malformed(is: string, should: string, param: string): CgnError {
  return new CgnError("REQUEST_INVALID", `Cannot read the request: ${is}. ${should}`, { param }) as CgnError;
}

/** The first choice of a chat completion or chunk. */
export function firstChoice(chat: Readonly<Json>): Readonly<Json> | undefined {
  const choices = chat["choices"];
  if (!Array.isArray(choices)) return undefined;
  return choices.find((c): c is Json => isObject(c) && (c["index"] ?? 0) === 0);
}

/** Thoughts of a message or delta, by the two names that engines have for them. */
export function thoughtsOf(part: Readonly<Json>): string {
  const text = part["reasoning_content"] ?? part["reasoning"];
  return typeof text === "string" ? text : "";
}

export const textOf = (v: unknown): string => (typeof v === "string" ? v : "");

const count = (v: unknown): number | undefined =>
  typeof v === "number" && Number.isFinite(v) && v >= 0 ? v : undefined;

/** Token counts of a chat completion; `cached` where the engine says. */
export interface Counts {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number | undefined;
  readonly reasoning: number | undefined;
}

/** Undefined: nothing was told. */
export function countsOf(usage: unknown): Counts | undefined {
  if (!isObject(usage)) return undefined;
  const { prompt_tokens_details: ofPrompt, completion_tokens_details: ofCompletion } = usage;
  return {
    prompt: count(usage["prompt_tokens"]) ?? 0,
    completion: count(usage["completion_tokens"]) ?? 0,
    cached: isObject(ofPrompt) ? count(ofPrompt["cached_tokens"]) : undefined,
    reasoning: isObject(ofCompletion) ? count(ofCompletion["reasoning_tokens"]) : undefined,
  };
}
