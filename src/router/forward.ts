import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { BodyEdits } from "../engines/disaggregation.ts";
import { findEngine } from "../engines/registry.ts";
import { forwardRequestHeaders } from "../http/headers.ts";
import type { UpstreamRequest } from "../http/upstream.ts";
import type { RequestTrace } from "../telemetry/tracer.ts";
import type { Exchange } from "./accept.ts";
import { isObject } from "./answer.ts";
import { asksLogprobs, streamsLogprobs } from "./cascade-ask.ts";
import { canFold } from "./fold.ts";
import type { Subject } from "./identify.ts";
import { mayBeObject, type ReadRequest } from "./read.ts";
import type { LegEnd } from "./sinks.ts";
import { type MemberEdits, spliceMembers } from "./splice.ts";

/** A request as one worker gets it, and what the relay must undo on the way back. */
export interface ForwardPlan {
  readonly request: UpstreamRequest;
  /** A stream is asked for although the client wants a whole answer. */
  readonly fold: boolean;
  /** The last chunk, with nothing but usage, is for the router only. */
  readonly dropUsage: boolean;
}

/** What a leg of a split request has besides. */
export interface LegEdits {
  /** Members that say how KV is handed over. They win over all else. */
  readonly edits?: BodyEdits;
  /** Ask for a stream although the client wants a whole answer, or never; undefined: as the engine's traits say. */
  readonly fold?: boolean;
  /** Its answer is not for the client: nothing must be undone on the way back. */
  readonly quiet?: boolean;
}

/** What of an exchange goes on. */
export interface Forwarded extends Pick<Exchange, "id" | "req" | "method" | "target" | "engineKey"> {
  readonly trace: Pick<RequestTrace, "traceparent"> | undefined;
}

/**
 * Spell out the request for one worker: its own model name, and what its traits need. All other bytes stay.
 *
 * @param fresh on a new connection: the last one was cut before any answer
 * @throws CgnError REQUEST_INVALID for a body that cannot be read and must be
 */
export function forwardPlan(
  exchange: Forwarded,
  subject: Pick<Subject, "authenticated">,
  request: ReadRequest,
  worker: WorkerInfo,
  fresh: boolean,
  { edits: own = {}, quiet = false, fold: wish }: LegEdits = {},
): ForwardPlan {
  const { json } = request;
  const prompted = !quiet && (request.kind === "chat" || request.kind === "completion");
  const fold = !quiet && folds(worker, request, wish);
  const dropUsage = prompted && request.stream && worker.traits.usageOnlyWhenAsked === true && !asksUsage(json);
  const edits: Record<string, string | undefined> = {};
  const upstreamModel = upstreamName(worker, request.model);
  if (upstreamModel !== (request.bodyModel ?? request.model)) edits["model"] = JSON.stringify(upstreamModel);
  if (worker.traits.stripKvTransferParams === true) stripTransferParams(exchange, request, edits);
  else if (worker.handOver !== undefined) stripOwnMembers(worker, json, edits);
  if (fold) edits["stream"] = "true";
  if (fold || dropUsage)
    edits["stream_options"] = textOf("stream_options", { ...streamOptions(json), include_usage: true });
  const { rankHeader, rankMember } = worker.rank === undefined ? {} : worker.traits;
  const rank = String(worker.rank?.index ?? 0);
  if (rankMember !== undefined) edits[rankMember] = rank;
  Object.assign(edits, own);
  const headers = forwardRequestHeaders(
    exchange.req.rawHeaders,
    (name) => isOurs(name, subject) || name === rankHeader || (name === "traceparent" && exchange.trace !== undefined),
  );
  headers.push("x-request-id", exchange.id);
  const key = exchange.engineKey?.(worker.id);
  if (key !== undefined) headers.push("authorization", `Bearer ${key}`);
  if (exchange.trace !== undefined) headers.push("traceparent", exchange.trace.traceparent());
  if (rankHeader !== undefined) headers.push(rankHeader, rank);
  return {
    request: {
      method: exchange.method,
      path: request.target ?? exchange.target ?? "/",
      headers,
      body: request.body.length === 0 ? undefined : editedBody(request, edits, upstreamModel),
      ...(fresh || worker.traits.closesConnections === true ? { fresh: true } : {}),
    },
    fold,
    dropUsage,
  };
}

/**
 * Is a stream asked for, for a client that wants a whole answer?
 * @param wish where it is not as the engine's traits say
 */
export function folds(worker: WorkerInfo, request: ReadRequest, wish?: boolean): boolean {
  const { kind, json, unmatched, away } = request;
  // Of a body that was not built it is not known what the answer must look like.
  if (!(wish ?? worker.traits.foldNonStreaming === true) || unmatched !== undefined) return false;
  if (kind !== "chat" && kind !== "completion") return false;
  if (asksLogprobs(request) && !streamsLogprobs(worker, json ?? {})) return false;
  return away === undefined ? canFold(json ?? {}) : away.canFold;
}

/** The name that the engine wants. */
function upstreamName(worker: WorkerInfo, model: string | undefined): string | undefined {
  const { upstreamModel, models, adapters, traits } = worker;
  if (model === undefined || adapters?.includes(model) !== true) return upstreamModel ?? model;
  return traits.adapterJoin === undefined ? model : `${upstreamModel ?? models[0]}${traits.adapterJoin}${model}`;
}

function editedBody(request: ReadRequest, edits: MemberEdits, upstreamModel: string | undefined): Buffer {
  const { body, json, members, formModel } = request;
  if (json !== undefined) return Object.keys(edits).length > 0 ? spliceMembers(body, edits, members) : body;
  if (formModel === undefined || upstreamModel === undefined || upstreamModel === request.model) return body;
  return Buffer.concat([body.subarray(0, formModel.start), Buffer.from(upstreamModel), body.subarray(formModel.end)]);
}

const TRANSFER_PARAMS = "kv_transfer_params";

/** Clients have no say in how KV is handed over. */
function stripOwnMembers(
  { kind }: WorkerInfo,
  json: ReadRequest["json"],
  edits: Record<string, string | undefined>,
): void {
  for (const name of findEngine(kind).disaggregation?.ownMembers ?? []) {
    if (json !== undefined && name in json) edits[name] = undefined;
  }
}

/**
 * Take out what vLLM's connectors act upon: `kv_transfer_params` at the top, and within `vllm_xargs`, which vLLM 0.11 and
 * later lay under it in the same dictionary (`extra_args`).
 */
function stripTransferParams(
  exchange: Forwarded,
  request: ReadRequest,
  edits: Record<string, string | undefined>,
): void {
  const { json } = request;
  if (json === undefined) {
    requireReadable(exchange, request);
    return;
  }
  if (TRANSFER_PARAMS in json) edits[TRANSFER_PARAMS] = undefined;
  const xargs = json["vllm_xargs"];
  if (!isObject(xargs) || !(TRANSFER_PARAMS in xargs)) return;
  const { [TRANSFER_PARAMS]: _gone, ...rest } = xargs;
  edits["vllm_xargs"] = textOf("vllm_xargs", rest);
}

/** @throws CgnError REQUEST_INVALID for bytes that the engine may read as an object although the router cannot */
function requireReadable({ req }: Forwarded, { body }: ReadRequest): void {
  const encoding = req.headers["content-encoding"];
  const coded = body.length > 0 && encoding !== undefined && encoding.toLowerCase() !== "identity";
  if (!coded && !mayBeObject(body)) return;
  const is = coded ? `its body is encoded (${encoding})` : "its body looks like JSON, but is not";
  const message = `Cannot pass the request on: ${is}. Send a JSON object in UTF-8, not compressed`;
  throw new CgnError("REQUEST_INVALID", message, {});
}

/** @throws CgnError REQUEST_INVALID for a value so deep that it cannot be written */
function textOf(member: string, value: object): string {
  try {
    return JSON.stringify(value);
  } catch {
    const message = `Cannot pass the request on: "${member}" is nested too deep. Send at most a few levels`;
    throw new CgnError("REQUEST_INVALID", message, { param: member });
  }
}

function streamOptions(json: ReadRequest["json"]): Readonly<Record<string, unknown>> {
  const options = json?.["stream_options"];
  return isObject(options) ? options : {};
}

function asksUsage(json: ReadRequest["json"]): boolean {
  return streamOptions(json)["include_usage"] === true;
}

/** Headers that are meant for the router, or that it sets anew. */
function isOurs(name: string, subject: Pick<Subject, "authenticated">): boolean {
  if (name.startsWith("x-cgn-") || name === "x-request-id") return true;
  return subject.authenticated && (name === "authorization" || name === "x-api-key");
}

/** At most so many workers are tried for one request. */
const MAX_ATTEMPTS = 3;

/** Most requests fail nowhere, and get no sets of their own. */
const NONE: ReadonlySet<WorkerId> = new Set();

/** What may be tried after a leg that sent nothing to the client. */
export class Retries {
  /** Workers that failed this request and are not asked again. */
  tried: ReadonlySet<WorkerId> = NONE;
  /** Workers whose connection was cut before any answer: asked once more, on a new one. */
  renewed: ReadonlySet<WorkerId> = NONE;
  #attempts = 0;
  #deaths = 0;

  /**
   * Note a failed leg.
   *
   * A connection that was cut before any answer may have been an idle one that the engine was just closing: the same worker,
   * with its cache, is asked once more. A worker that died while it worked on a request, or never answered it, may have done so
   * *because of* it: that is risked on one more only. One that was taken out of routing (its host is gone, its agent says that it
   * stopped) tells nothing of the request.
   *
   * @param others more ready workers there are
   * @returns whom to ask now; undefined: give up
   */
  next(worker: WorkerId, end: LegEnd & { type: "retry" }, others: number): "same" | "other" | undefined {
    const { kind, phase } = end.failure;
    if (kind === "reset" && phase === "head" && !this.renewed.has(worker)) {
      this.renewed = new Set([...this.renewed, worker]);
      return "same";
    }
    this.#attempts++;
    if (kind === "aborted" || kind === "unusable") return undefined;
    const died = kind !== "lost" && phase !== "connect" && end.held === undefined;
    if (died) this.#deaths++;
    if (this.#attempts >= MAX_ATTEMPTS || this.#deaths > 1) return undefined;
    this.tried = new Set([...this.tried, worker]);
    return others > 0 ? "other" : undefined;
  }
}

/** Before another worker is asked: a little while, so that all that a dying worker had do not come in one moment. */
const PAUSE_MS = 20;

/**
 * How long to wait before the next try, in ms.
 * @param attempt 1 for the second try
 * @param random 0 to 1
 */
export function retryPauseMs(attempt: number, random: number): number {
  return PAUSE_MS * 2 ** Math.min(attempt - 1, 4) * random;
}
