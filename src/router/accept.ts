import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ANONYMOUS, type Subject } from "../access/subject.ts";
import { FREE_TICKET, type Ticket } from "../access/ticket.ts";
import type { WorkerId } from "../core/ids.ts";
import type { ClientRequest, ClientResponse } from "../http/client-response.ts";
import { type RequestTarget, readTarget } from "../http/request-target.ts";
import type { RequestTrace } from "../telemetry/tracer.ts";
import type { AwayClient } from "./away.ts";
import type { CascadeStep } from "./cascade-step.ts";
import { type ApiShape, isKnownPath, shapeOf } from "./endpoints.ts";

/** One request of a client, from its first byte to the end of its answer. */
export interface Exchange {
  /** `x-request-id`: the client's, else made here. */
  readonly id: string;
  readonly req: ClientRequest;
  /** Where its answer goes: the client, or what holds it back while a cascade judges it. */
  res: ClientResponse;
  /** Whom its body comes from: this connection, or the thread that has it. */
  readonly body: IncomingMessage | AwayClient;
  readonly method: string;
  /** Decoded, in one spelling, without the query; as it came where it cannot be read. */
  readonly path: string;
  /** Path and query as they go on. Undefined: the client's target cannot be read. */
  readonly target: string | undefined;
  /** In whose form its client reads errors. */
  readonly shape: ApiShape;
  readonly startedMs: number;
  /** Who asks; `anonymous` until `identify` has said. */
  subject: Subject;
  /** What it holds of its subject's limits. */
  ticket: Ticket;
  /** The key that an engine asks for. Set once the caller's own was checked: nobody else gets in by it. */
  engineKey: ((worker: WorkerId) => string | undefined) | undefined;
  /** Undefined: nothing is traced. */
  trace: RequestTrace | undefined;
  /** The client went away before its answer ended. */
  left: boolean;
  /** How long it waited for its model to be loaded. */
  waitedMs: number;
  /** How long it waited for a place among the requests that run. */
  queuedMs: number;
  /** Its answer has begun as an event stream, with nothing but comments: errors are events from here on. */
  opened: boolean;
  /** The step of a cascade that runs; undefined: its model is asked alone. */
  cascade: CascadeStep | undefined;
  /** Called when it does; whoever holds the request sets what must be cut. */
  onLeft: (() => void) | undefined;
  /**
   * The leg under way, told of the same. Not by `onLeft`: where every request puts a function there, V8 keeps most of them, with all that
   * belongs to them, through its collections of young garbage (measured: 20 µs a request).
   */
  relay: { clientLeft(): void } | undefined;
}

/** What a request id may look like to be kept: it goes into logs, headers and URLs. */
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** A slash after the path of a known endpoint is a slip: engines answer it with a redirect to themselves. */
function endpointSpelling(read: RequestTarget | undefined, raw: string): Pick<Exchange, "path" | "target"> {
  if (read === undefined) return { path: raw, target: undefined };
  const { path, target } = read;
  if (!path.endsWith("/") || !isKnownPath(path.slice(0, -1))) return read;
  return { path: path.slice(0, -1), target: path.slice(0, -1) + target.slice(path.length) };
}

let last: { readonly raw: string; readonly spelling: Pick<Exchange, "path" | "target"> } | undefined;

/** Most requests are for the same path as the one before. */
function spellingOf(raw: string): Pick<Exchange, "path" | "target"> {
  if (last?.raw !== raw) last = { raw, spelling: endpointSpelling(readTarget(raw), raw) };
  return last.spelling;
}

/** Take a request in: its id, its path, and who must be told when the client goes. */
export function accept(req: IncomingMessage, res: ClientResponse, nowMs: number): Exchange {
  return acceptFrom(req, req, res, nowMs);
}

/** The same for a body that may be elsewhere. */
export function acceptFrom(body: Exchange["body"], req: ClientRequest, res: ClientResponse, nowMs: number): Exchange {
  const raw = req.url ?? "/";
  const sent = req.headers["x-request-id"];
  const { path, target } = spellingOf(raw);
  const exchange: Exchange = {
    id: typeof sent === "string" && REQUEST_ID.test(sent) ? sent : randomUUID(),
    req,
    res,
    body,
    method: req.method ?? "GET",
    path,
    target,
    shape: shapeOf(path, req.headers["anthropic-version"]),
    startedMs: nowMs,
    subject: ANONYMOUS,
    ticket: FREE_TICKET,
    engineKey: undefined,
    trace: undefined,
    left: false,
    waitedMs: 0,
    queuedMs: 0,
    opened: false,
    cascade: undefined,
    onLeft: undefined,
    relay: undefined,
  };
  res.on("close", () => {
    if (res.writableFinished) return;
    exchange.left = true;
    exchange.onLeft?.();
    exchange.relay?.clientLeft();
  });
  // A reset of the client's connection is told by `close`; unheard, it would end the process.
  res.on("error", () => {});
  return exchange;
}
