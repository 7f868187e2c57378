import { endWhole } from "../http/body-writer.ts";
import type { ClientResponse } from "../http/client-response.ts";
import type { ResponseHeaders } from "../http/headers.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { type AnswerFacts, readAnswer } from "./answer.ts";
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
  /** The stream said that it is over. Its connection should end at once; where it does not, `fail()` is called soon. */
  onOver(): void;
}

/** The last event of a stream in OpenAI's form. */
export const DONE = Buffer.from("[DONE]");

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

/** Above this an answer is passed on as it comes: it is not read for figures, and can no longer be tried elsewhere. */
const HOLD_BYTES = 4 * 1024 * 1024;
/** The same for an answer that must be read whole, to be written in the form of another API. */
const REWRITE_BYTES = 64 * 1024 * 1024;
/** Bodies up to this are parsed for figures; embeddings of many inputs are larger and not worth the time. */
export const PARSE_BYTES = 512 * 1024;

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
    const text = endWhole(c.res, sent);
    // The client does not wait for our reading.
    if (body.length <= PARSE_BYTES && body[0] === 0x7b)
      readWhole((written === undefined ? text : undefined) ?? body.toString("utf8"), c.facts);
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

function readWhole(body: string, facts: AnswerFacts): void {
  try {
    readAnswer(JSON.parse(body), facts);
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
