import type { CgnError } from "../core/errors.ts";
import { sendError } from "../http/error-body.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { Exchange } from "./accept.ts";
import { isObject } from "./answer.ts";
import { anthropicFromEngine, apiErrorBody, apiErrorEvent } from "./api-errors.ts";
import type { LegEnd, Sink, SinkContext } from "./sinks.ts";

/**
 * Begin an event stream before any engine was chosen: the client sees that something lives. From here on there is no status but
 * 200, so errors go as events.
 */
export function openStream(exchange: Exchange): void {
  const { res } = exchange;
  if (res.headersSent || res.destroyed) return;
  exchange.opened = true;
  res.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-request-id": exchange.id,
  });
  res.flushHeaders();
}

/** A comment: clients and proxies wait on, and nobody takes it for an answer. */
export function sendComment({ res }: Exchange, text: string): void {
  if (!res.writableEnded && !res.destroyed) res.write(`: ${text.replaceAll(/[\r\n]+/g, " ")}\n\n`);
}

/** Answer with an error: by its status, or as the last event where the stream has begun. */
export function answerError(exchange: Exchange, error: CgnError, headers: Readonly<Record<string, string>> = {}): void {
  const body = apiErrorBody(error, exchange.shape, exchange.id);
  if (exchange.opened) exchange.res.end(apiErrorEvent(body, exchange.shape));
  else sendError(exchange.res, error, { ...headers, ...dontRetry(error) }, body);
}

/** SDKs try again after any 429 and 5xx; after these that is in vain. */
function dontRetry({ code, details }: CgnError): Readonly<Record<string, string>> {
  const inVain = code === "NOT_SUPPORTED" || (code === "OVERLOADED" && !("retryAfterS" in details));
  return inVain ? { "x-should-retry": "false" } : {};
}

/** An engine's whole answer (JSON, for a stream that it refused) as the last event of a stream that has begun. */
export function answerInStream({ res, shape }: Pick<Exchange, "res" | "shape">, status: number, body: Buffer): void {
  if (shape === "anthropic" && status >= 400) {
    const said = anthropicFromEngine(status, body, "") ?? body;
    res.end(`event: error\ndata: ${JSON.stringify(JSON.parse(said.toString("utf8")))}\n\n`);
  } else res.end(apiErrorEvent(wholeAsEvent(status, body), status < 400 ? "openai" : shape));
}

/** Engines differ in their errors' shapes; clients look for `error` in an event. */
function wholeAsEvent(status: number, body: Buffer): object {
  const text = body.toString("utf8");
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    said = undefined;
  }
  if (isObject(said) && (said["error"] !== undefined || status < 400)) return said;
  const message = isObject(said) && typeof said["message"] === "string" ? said["message"] : text.slice(0, 2_000);
  return {
    error: { message, type: status < 500 ? "invalid_request_error" : "server_error", code: status, param: null },
  };
}

const HOLD_BYTES = 4 * 1024 * 1024;

/** An answer that is no stream, to a client whose stream has begun: it becomes one event. */
export class OpenedSink implements Sink {
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
    if (this.#size > HOLD_BYTES)
      return { kind: "unusable", phase: "body", message: "it answers a stream with a large body" };
    this.#chunks.push(chunk);
    return true;
  }

  end(): LegEnd {
    const { status, headers } = this.#c;
    const body = Buffer.concat(this.#chunks);
    if (status >= 500 && this.#retryable(body)) {
      const failure = { kind: "protocol", phase: "body", message: `it answered ${status}` } as const;
      return { type: "retry", failure, held: { status, headers, body } };
    }
    answerInStream(this.#c, status, body);
    return { type: "complete", status };
  }

  fail(failure: UpstreamFailure): LegEnd {
    return { type: "retry", failure };
  }
}
