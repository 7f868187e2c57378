import type { FederationSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError, toCgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { forwardRequestHeaders } from "../http/headers.ts";
import type { UpstreamRequest } from "../http/upstream.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Exchange } from "./accept.ts";
import { type AnswerFacts, noFacts } from "./answer.ts";
import type { RouterCore } from "./core.ts";
import type { DecisionRecord, Writable } from "./decisions.ts";
import { FederationPeers, type Peer } from "./federation-peers.ts";
import type { ReadRequest } from "./read.ts";
import { Relay } from "./relay.ts";
import type { Outcome } from "./router-metrics.ts";
import { outcomeOf } from "./settle.ts";
import type { LegEnd } from "./sinks.ts";
import { ownDeadline } from "./wait-room.ts";

/** How often a request was handed from cluster to cluster. */
const HOPS = "x-cgn-hops";
const GENERATES: ReadonlySet<string> = new Set(["chat", "completion", "messages", "responses"]);

/**
 * The other clusters' routers, as a last resort: asked when no engine here serves a model, none is ready, or what is predicted is later
 * than the client would wait. A request is handed on at most `max_hops` times, so it cannot go round.
 */
export class Federation {
  readonly #settings: FederationSettings;
  readonly #peers: FederationPeers;
  readonly #metrics: Metrics;

  constructor(settings: FederationSettings, clock: Clock, log: Log, metrics: Metrics) {
    this.#settings = settings;
    this.#metrics = metrics;
    this.#peers = new FederationPeers(settings, clock, log, metrics);
  }

  /** For `/v1/cgn/status`. */
  status(): readonly Peer[] {
    return this.#peers.list();
  }

  close(): void {
    this.#peers.close();
  }

  /** Is there somebody who could take a request for this model? */
  couldTake({ req }: Pick<Exchange, "req">, model: string): boolean {
    return hopsOf(req) < this.#settings.maxHops && this.#peers.having(model).length > 0;
  }

  /**
   * @param predictedMs time to the first token here
   * @throws CgnError OVERLOADED when the client's own deadline would be missed here and another cluster could take it
   */
  requireDeadline(core: RouterCore, exchange: Exchange, model: string, predictedMs: number): void {
    const deadlineMs = ownDeadline(exchange);
    if (!Number.isFinite(deadlineMs)) return;
    const leftMs = deadlineMs - (core.clock.now() - exchange.startedMs);
    if (predictedMs <= leftMs || !this.couldTake(exchange, model)) return;
    const is = `its first token is predicted after ${Math.round(predictedMs)} ms, and ${Math.max(0, Math.round(leftMs))} ms are left of its x-cgn-deadline-ms`;
    throw new CgnError("OVERLOADED", `Cannot admit a request for "${model}": ${is}. Try again later`, {
      retryAfterS: 1,
      reason: "deadline",
    } as { retryAfterS: number });
  }

  /**
   * Hand a request that this cluster refuses to another one, if one may better it, and relay its answer.
   * @returns false: nobody took it, and nothing was sent to the client
   */
  async takeOver(
    core: RouterCore,
    exchange: Exchange,
    asked: ReadRequest | undefined,
    refusal: unknown,
  ): Promise<boolean> {
    const error = toCgnError(refusal);
    const model = asked?.model;
    if (asked === undefined || model === undefined || exchange.left || !mayBetter(error)) return false;
    if (!this.couldTake(exchange, model)) return false;
    const request = asked.away === undefined ? asked : await asked.away.bring();
    const record = begin(core, exchange, request, model, error);
    for (const peer of this.#peers.having(model)) {
      noteTry(record, peer, error);
      const { end, facts, firstMs } = await this.#relay(core, exchange, request, peer);
      const result = end.type === "retry" ? "refused" : outcomeOf(end, facts);
      this.#metrics.counter("cgn_router_federated_requests_total", peer.name, result).inc();
      if (end.type !== "retry") {
        settle(core, exchange, record, end, facts, firstMs);
        return true;
      }
      record.attempts.at(-1)!.failed = `${end.failure.kind}: ${end.failure.message}`;
      if (end.held === undefined) this.#peers.failed(peer, end.failure.message);
    }
    record.outcome = { result: "rejected", error: error.message, totalMs: core.clock.now() - exchange.startedMs };
    return false;
  }

  async #relay(
    core: RouterCore,
    exchange: Exchange,
    request: ReadRequest,
    peer: Peer,
  ): Promise<{ readonly end: LegEnd; readonly facts: AnswerFacts; readonly firstMs: number | undefined }> {
    const facts = noFacts();
    let firstMs: number | undefined;
    const relay = new Relay({
      exchange,
      facts,
      headers: { ...exchange.ticket.headers, "x-request-id": exchange.id, "x-cgn-cluster": peer.name },
      mustFinish: request.stream && GENERATES.has(request.kind),
      wantText: false,
      dropUsage: false,
      streams: request.stream,
      fold: false,
      convert: undefined,
      mendEvents: false,
      clock: core.clock,
      limits: core.answersOf(request.model ?? ""),
      onFirst: () => void (firstMs ??= core.clock.now()),
    });
    const end = await relay.run(core.upstreams, peer.url, this.#requestTo(core, exchange, request));
    return { end, facts, firstMs };
  }

  #requestTo(core: RouterCore, exchange: Exchange, request: ReadRequest): UpstreamRequest {
    const { key } = this.#settings;
    // A key of ours that was checked here is nobody's there.
    const hidesKey = key !== undefined || exchange.subject.authenticated;
    const headers = forwardRequestHeaders(exchange.req.rawHeaders, (name) => {
      if (name.startsWith("x-cgn-") || name === "x-request-id") return true;
      return hidesKey && (name === "authorization" || name === "x-api-key");
    });
    headers.push("x-request-id", exchange.id, HOPS, String(hopsOf(exchange.req) + 1));
    if (key !== undefined) headers.push("authorization", `Bearer ${key}`);
    const leftMs = ownDeadline(exchange) - (core.clock.now() - exchange.startedMs);
    if (Number.isFinite(leftMs)) headers.push("x-cgn-deadline-ms", String(Math.max(1, Math.round(leftMs))));
    return {
      method: exchange.method,
      path: exchange.target ?? "/",
      headers,
      body: request.body.length === 0 ? undefined : request.body,
    };
  }
}

/** What is not understood was not made by a router: the request goes no further. */
function hopsOf({ headers }: Exchange["req"]): number {
  const text = headers[HOPS];
  if (text === undefined) return 0;
  return typeof text === "string" && /^\d{1,3}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
}

/** Refusals of this cluster's state, not of the request or of who asks. */
function mayBetter({ code }: CgnError): boolean {
  return code === "NO_WORKER" || code === "MODEL_NOT_FOUND" || code === "OVERLOADED";
}

function begin(
  core: RouterCore,
  exchange: Exchange,
  request: ReadRequest,
  model: string,
  error: CgnError,
): DecisionRecord {
  const record: Writable<DecisionRecord> = {
    id: exchange.id,
    at: core.clock.wall(),
    model,
    path: exchange.path,
    stream: request.stream,
    policy: "federation",
    promptBytes: request.body.length,
    unmatched: "it is not sent to an engine of this cluster",
    handedOver: error.message,
    attempts: [],
  };
  if (exchange.subject.authenticated) record.subject = exchange.subject.name;
  core.decisions.add(record);
  return record;
}

function noteTry(record: DecisionRecord, peer: Peer, error: CgnError): void {
  const reason = `last resort (${error.code})`;
  const attempt = { worker: peer.url, node: peer.name, reason, predictedCachedTokens: 0, candidates: [] };
  record.attempts = [...record.attempts, attempt];
}

function settle(
  core: RouterCore,
  exchange: Exchange,
  record: DecisionRecord,
  end: LegEnd,
  facts: AnswerFacts,
  firstMs: number | undefined,
): void {
  const nowMs = core.clock.now();
  const result: Outcome = outcomeOf(end, facts);
  const totalMs = nowMs - exchange.startedMs;
  const outcome: Writable<NonNullable<DecisionRecord["outcome"]>> = { result, totalMs };
  if (end.type === "complete") outcome.status = end.status;
  if ("failure" in end) outcome.error = end.failure.message;
  if (firstMs !== undefined) outcome.ttftMs = firstMs - exchange.startedMs;
  if (facts.promptTokens !== undefined) outcome.promptTokens = facts.promptTokens;
  if (facts.completionTokens !== undefined) outcome.completionTokens = facts.completionTokens;
  if (facts.cachedTokens !== undefined) outcome.cachedTokens = facts.cachedTokens;
  record.outcome = outcome;
  // Models that only others have are no labels of ours.
  const label = core.fleet.group(record.model)?.model ?? "";
  core.metrics.ended(label, result, exchange.subject, { totalMs, firstMs: (firstMs ?? nowMs) - exchange.startedMs });
  core.metrics.subjects.used(exchange.subject, record);
  const used = result === "ok" ? tokensOf(facts) : 0;
  exchange.ticket.end(used);
}

function tokensOf({ promptTokens, completionTokens }: AnswerFacts): number | undefined {
  return promptTokens === undefined ? undefined : promptTokens + (completionTokens ?? 0);
}
