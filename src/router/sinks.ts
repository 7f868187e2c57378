import type { ClientResponse } from "../http/client-response.ts";
import type { ResponseHeaders } from "../http/headers.ts";
import { SseSplitter } from "../http/sse.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { type AnswerFacts, isObject, readAnswer } from "./answer.ts";
import { apiErrorEvent } from "./api-errors.ts";
import type { ContinuedStream } from "./continuation.ts";
import type { ApiShape } from "./endpoints.ts";

/** How one leg of a request ended. */
export type LegEnd =
  /** The client has the engine's whole answer. */
  | { readonly type: "complete"; readonly status: number }
  /** Nothing was sent to the client: another worker may try. `held` is the engine's own answer, to be sent if none can; `lacks` the path that it has not. */
  | { readonly type: "retry"; readonly failure: UpstreamFailure; readonly held?: HeldAnswer; readonly lacks?: string }
  /** It broke after the first byte; the client was told in the stream, or its connection was cut. */
  | { readonly type: "broken"; readonly failure: UpstreamFailure }
  /** The same, but the client's stream is open still: another worker may go on with it. */
  | { readonly type: "cut"; readonly failure: UpstreamFailure }
  | { readonly type: "left" };

/** An engine's answer that was read whole and not sent on. */
export interface HeldAnswer {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly body: Buffer;
}

/** Where an answer goes: one of the ways below, by what its head says. */
export interface Sink {
  /** False: pause until the client has taken what it was sent. A failure ends the leg. */
  data(chunk: Buffer): boolean | UpstreamFailure;
  end(): LegEnd;
  fail(failure: UpstreamFailure): LegEnd;
}

/** What all sinks of one leg share. */
export interface SinkContext {
  readonly res: ClientResponse;
  /** The client's stream has begun, with nothing but comments: another worker may still answer. */
  readonly opened: boolean;
  readonly status: number;
  /** As they go to the client, the router's own included. */
  readonly headers: ResponseHeaders;
  readonly facts: AnswerFacts;
  /** A generated answer: its stream must end with a finish or `[DONE]`. */
  readonly mustFinish: boolean;
  /** Text is wanted of each event (history sources); else only events with figures are parsed. */
  readonly wantText: boolean;
  /** The usage chunk was asked for by the router, not by the client. */
  readonly dropUsage: boolean;
  readonly shape: ApiShape;
  /** What the client has of a stream that may go on elsewhere. */
  readonly stream?: ContinuedStream | undefined;
  /** The path that the engine does not have, if that is what its answer says. */
  lacks(status: number, body: Buffer): string | undefined;
  /** An event as the client's API has it; undefined: as it came. */
  readonly mend?: ((data: Buffer) => Buffer | undefined) | undefined;
  /** A whole answer as the client's API has it; undefined: as it came. */
  readonly rewrite?: ((status: number, body: Buffer) => Buffer | undefined) | undefined;
  /** Its length is told by nothing but the connection's end: an answer that was cut looks like a whole one. */
  readonly untilClose: boolean;
  /** First sign of generated text. */
  onFirst(): void;
  /** A part of what streams came: events, not comments. */
  onPart(): void;
}

/** The last event of a stream in OpenAI's form. */
export const DONE = Buffer.from("[DONE]");

/** So much of a stream without data (comments) is held back at most. */
const HELD_BYTES = 256 * 1024;

/** Write a body's piece; `write` says whether more is welcome. */
function send(c: SinkContext, bytes: Buffer): boolean {
  if (!c.res.headersSent) c.res.writeHead(c.status, c.headers);
  return c.res.write(bytes);
}

/** An error as the last event of a stream, in the form of the client's API. */
export function errorEvent(failure: UpstreamFailure, shape: ApiShape): Buffer {
  const message = `The engine failed before its answer ended: ${failure.message}`;
  const code = "upstream_failed";
  if (shape === "anthropic")
    return apiErrorEvent({ type: "error", error: { type: "api_error", message, code }, src: "cgn" }, shape);
  return apiErrorEvent({ error: { message, type: "server_error", code, param: null }, src: "cgn" }, shape);
}

/**
 * A stream of events, passed on as it comes but only at the borders of events: a stream that breaks never leaves half of
 * one. Until the first event with data nothing is sent, so that another worker may still answer.
 */
export class StreamSink implements Sink {
  readonly #c: SinkContext;
  readonly #splitter = new SseSplitter();
  #out: Buffer[] = [];
  #held = 0;
  #started = false;
  #done = false;
  /** An event with data was in the last chunk. */
  #heard = false;
  /** Events too large to understand: bytes go on as they come. */
  #blind = false;
  /** Said in the stream, which may go on elsewhere instead. */
  #failure: UpstreamFailure | undefined;

  constructor(c: SinkContext) {
    this.#c = c;
  }

  data(chunk: Buffer): boolean | UpstreamFailure {
    if (this.#blind) {
      this.#c.onPart();
      return send(this.#c, chunk);
    }
    this.#heard = false;
    this.#splitter.push(chunk, (event) => this.#event(event.raw, event.data));
    if (this.#splitter.overflowed) {
      this.#blind = this.#started = true;
      this.#out.push(this.#splitter.flush()!);
    }
    if (this.#heard) this.#c.onPart();
    if (!this.#started && this.#held > HELD_BYTES) this.commit();
    const more = this.#started ? this.#flush() : true;
    return this.#failure ?? more;
  }

  /** Send what is held back although no data came yet: the client must see that something lives. */
  commit(): void {
    this.#started = true;
    if (!this.#c.res.headersSent) {
      this.#c.res.writeHead(this.#c.status, this.#c.headers);
      this.#c.res.flushHeaders();
    }
    this.#flush();
  }

  end(): LegEnd {
    const rest = this.#splitter.flush();
    if (rest !== undefined) this.#out.push(rest);
    const c = this.#c;
    if (c.mustFinish && !this.#blind && !this.#done && !c.facts.finished && c.facts.error === undefined) {
      return this.fail({ kind: "reset", phase: "body", message: "its stream ended without a finish" });
    }
    if (!c.res.headersSent) c.res.writeHead(c.status, c.headers);
    this.#flush();
    c.res.end();
    return { type: "complete", status: c.status };
  }

  fail(failure: UpstreamFailure): LegEnd {
    if (!this.#started && (this.#c.opened || !this.#c.res.headersSent)) return { type: "retry", failure };
    // What is left of an event would make the error unreadable.
    this.#splitter.flush();
    const { stream, facts, res } = this.#c;
    if (stream?.usable === true && !this.#blind) {
      if (!facts.finished) return { type: "cut", failure };
      // All of its text is there.
      res.end(this.#done ? undefined : "data: [DONE]\n\n");
      return { type: "complete", status: this.#c.status };
    }
    this.#c.res.end(errorEvent(failure, this.#c.shape));
    return { type: "broken", failure };
  }

  #flush(): boolean {
    if (this.#out.length === 0) return true;
    const bytes = this.#out.length === 1 ? this.#out[0]! : Buffer.concat(this.#out);
    this.#out = [];
    return send(this.#c, bytes);
  }

  #event(raw: Buffer, data: Buffer | undefined): void {
    if (data !== undefined) {
      this.#heard = true;
      if (!this.#started) {
        this.#started = true;
        this.#c.onFirst();
      }
      if (data.length === DONE.length && data.equals(DONE)) this.#done = true;
      else if (this.#c.stream !== undefined) {
        this.#take(raw, data, this.#c.stream);
        return;
      } else if (readEvent(data, this.#c) && this.#c.dropUsage) return;
    }
    this.#out.push((data === undefined ? undefined : this.#c.mend?.(data)) ?? raw);
    if (!this.#started) this.#held += raw.length;
  }

  /** An event of a stream that may go on elsewhere, or that went on here. */
  #take(raw: Buffer, data: Buffer, stream: ContinuedStream): void {
    if (this.#failure !== undefined) return;
    const chunk = parse(data);
    if (isObject(chunk) && stream.usable && isServerError(chunk["error"])) {
      this.#failure = { kind: "protocol", phase: "body", message: "it told an error in its stream" };
      return;
    }
    const taken = stream.take(chunk);
    if (chunk !== undefined && taken === undefined) return;
    readAnswer(taken, this.#c.facts);
    if (this.#c.dropUsage && isUsageOnly(taken)) return;
    this.#out.push(taken === chunk ? raw : Buffer.from(`data: ${JSON.stringify(taken)}\n\n`));
  }
}

/** An engine's error that is not the request's fault. */
function isServerError(error: unknown): boolean {
  return error !== undefined && error !== null && errorStatus(error) >= 500;
}

/** Take the figures of one event. @returns true for a chunk that holds nothing but usage */
function readEvent(data: Buffer, c: SinkContext): boolean {
  if (data.length > PARSE_BYTES || (!c.wantText && !worthParsing(data, c.facts))) return false;
  let chunk: unknown;
  try {
    chunk = JSON.parse(data.toString("utf8"));
  } catch {
    return false;
  }
  readAnswer(chunk, c.facts);
  return isUsageOnly(chunk);
}

function isUsageOnly(chunk: unknown): boolean {
  if (!isObject(chunk)) return false;
  const { choices, usage } = chunk;
  return Array.isArray(choices) && choices.length === 0 && typeof usage === "object" && usage !== null;
}

/** A finish of a choice, or the event that ends an answer of the Messages API. */
const ENDS = /"finish_reason": ?"|^\{"type": ?"message_stop"/;

const FIGURES = /"(?:usage|timings|error)"/;

/** Does an event hold figures, an end or an error? Most hold one token's text: 0.3 µs instead of a parse. */
function worthParsing(data: Buffer, facts: AnswerFacts): boolean {
  // Latin-1 keeps the bytes of what is looked for, and costs a copy of some hundred bytes.
  const text = data.toString("latin1");
  if (FIGURES.test(text)) return true;
  if (!facts.finished && ENDS.test(text)) facts.finished = true;
  return false;
}

/** Above this an answer is passed on as it comes: it is not read for figures, and can no longer be tried elsewhere. */
const HOLD_BYTES = 4 * 1024 * 1024;
/** The same for an answer that must be read whole, to be written in the form of another API. */
const REWRITE_BYTES = 64 * 1024 * 1024;
/** Bodies up to this are parsed for figures; embeddings of many inputs are larger and not worth the time. */
const PARSE_BYTES = 512 * 1024;

/** A whole answer, sent in one write when it is complete: if the engine dies before that, another may answer. */
export class WholeSink implements Sink {
  readonly #c: SinkContext;
  readonly #retryable: (body: Buffer) => boolean;
  readonly #chunks: Buffer[] = [];
  #size = 0;

  /** @param retryable is this answer one that another worker might better? */
  constructor(c: SinkContext, retryable: (body: Buffer) => boolean) {
    this.#c = c;
    this.#retryable = retryable;
  }

  data(chunk: Buffer): boolean | UpstreamFailure {
    this.#size += chunk.length;
    if (this.#c.res.headersSent) return this.#c.res.write(chunk);
    this.#chunks.push(chunk);
    if (this.#size <= HOLD_BYTES) return true;
    if (this.#c.rewrite === undefined || this.#c.status >= 400)
      return send(this.#c, Buffer.concat(this.#chunks.splice(0)));
    return this.#size <= REWRITE_BYTES || unusable("its answer is too large to be converted");
  }

  end(): LegEnd {
    const c = this.#c;
    if (c.res.headersSent) {
      c.res.end();
      return { type: "complete", status: c.status };
    }
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    if (c.untilClose && c.status === 200 && isCut(body))
      return this.fail({ kind: "reset", phase: "body", message: "its answer was cut: it is no whole JSON" });
    const lacks = c.lacks(c.status, body);
    const written = c.rewrite?.(c.status, body);
    const sent = written ?? body;
    if (lacks !== undefined || (c.status >= 500 && this.#retryable(body))) {
      const failure = { kind: "protocol", phase: "body", message: `it answered ${c.status}` } as const;
      const held = { status: c.status, headers: c.headers, body: sent };
      return { type: "retry", failure, held, ...(lacks === undefined ? {} : { lacks }) };
    }
    if (written !== undefined) c.headers["content-type"] = "application/json";
    if (sent.length > 0) c.headers["content-length"] = String(sent.length);
    c.res.writeHead(c.status, c.headers);
    c.res.end(sent);
    // The client does not wait for our reading.
    if (body.length <= PARSE_BYTES && body[0] === 0x7b) readWhole(body, c.facts);
    return { type: "complete", status: c.status };
  }

  fail(failure: UpstreamFailure): LegEnd {
    return failWhole(this.#c.res, failure);
  }
}

/** Does it begin as JSON and not end as such? */
function isCut(body: Buffer): boolean {
  if (body[0] !== 0x7b && body[0] !== 0x5b) return false;
  try {
    JSON.parse(body.toString("utf8"));
    return false;
  } catch {
    return true;
  }
}

function readWhole(body: Buffer, facts: AnswerFacts): void {
  try {
    readAnswer(JSON.parse(body.toString("utf8")), facts);
  } catch {
    // An engine's answer that is no JSON passes as it is; it only has no figures.
  }
}

function failWhole(res: ClientResponse, failure: UpstreamFailure): LegEnd {
  if (!res.headersSent) return { type: "retry", failure };
  // Part of a body with a promised length: only a cut connection tells the client that it is not whole.
  res.destroy();
  return { type: "broken", failure };
}

/** Anything else that streams (audio, lines of JSON): bytes as they come. */
export class RawSink implements Sink {
  readonly #c: SinkContext;

  constructor(c: SinkContext) {
    this.#c = c;
  }

  data(chunk: Buffer): boolean {
    this.#c.onFirst();
    this.#c.onPart();
    return send(this.#c, chunk);
  }

  end(): LegEnd {
    if (!this.#c.res.headersSent) this.#c.res.writeHead(this.#c.status, this.#c.headers);
    this.#c.res.end();
    return { type: "complete", status: this.#c.status };
  }

  fail(failure: UpstreamFailure): LegEnd {
    return failWhole(this.#c.res, failure);
  }
}

/** An answer that no other worker would give otherwise. */
export const unusable = (message: string): UpstreamFailure => ({ kind: "unusable", phase: "body", message });

/** @returns undefined for what is no JSON */
export function parse(data: Buffer): unknown {
  try {
    return JSON.parse(data.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** The status that an error inside a stream names; 500 where it names none. */
export function errorStatus(error: unknown): number {
  const code = typeof error === "object" && error !== null && "code" in error ? Number(error.code) : Number.NaN;
  return Number.isInteger(code) && code >= 400 && code <= 599 ? code : 500;
}
