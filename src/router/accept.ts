import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

/** One request of a client, from its first byte to the end of its answer. */
export interface Exchange {
  /** `x-request-id`: the client's, else made here. */
  readonly id: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** Path and query, as sent. */
  readonly target: string;
  readonly startedMs: number;
  /** The client went away before its answer ended. */
  left: boolean;
  /** Called when it does; whoever holds the request sets what must be cut. */
  onLeft: (() => void) | undefined;
}

/** What a request id may look like to be kept: it goes into logs, headers and URLs. */
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** Take a request in: its id, its path, and who must be told when the client goes. */
export function accept(req: IncomingMessage, res: ServerResponse, nowMs: number): Exchange {
  const target = req.url ?? "/";
  const query = target.indexOf("?");
  const sent = req.headers["x-request-id"];
  const exchange: Exchange = {
    id: typeof sent === "string" && REQUEST_ID.test(sent) ? sent : randomUUID(),
    req,
    res,
    method: req.method ?? "GET",
    path: query < 0 ? target : target.slice(0, query),
    target,
    startedMs: nowMs,
    left: false,
    onLeft: undefined,
  };
  res.on("close", () => {
    if (res.writableFinished) return;
    exchange.left = true;
    exchange.onLeft?.();
  });
  // A reset of the client's connection is told by `close`; unheard, it would end the process.
  res.on("error", () => {});
  return exchange;
}
