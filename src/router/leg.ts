import type { Clock } from "../core/clock.ts";
import type { MatchQuery } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { BodyEdits } from "../engines/disaggregation.ts";
import type { Leg } from "../routing/load.ts";
import type { Exchange } from "./accept.ts";
import { noFacts } from "./answer.ts";
import type { LegOrder } from "./away.ts";
import type { Choice, Question } from "./choose.ts";
import type { ContinuedStream } from "./continuation.ts";
import type { RouterCore } from "./core.ts";
import type { DecisionRecord } from "./decisions.ts";
import { type ForwardPlan, folds, forwardPlan } from "./forward.ts";
import type { Subject } from "./identify.ts";
import type { LegRequests } from "./leg-requests.ts";
import type { ReadRequest } from "./read.ts";
import { Relay, type RelayPlan } from "./relay.ts";
import type { LegRun } from "./settle.ts";
import type { LegEnd } from "./sinks.ts";
import { signOf } from "./worker-health.ts";

/** Everything about one request that its tries share. */
export interface Routed {
  readonly exchange: Exchange;
  readonly subject: Subject;
  readonly request: ReadRequest;
  /** The request in the forms that workers need. */
  readonly legs: LegRequests;
  readonly question: Question;
  readonly query: MatchQuery | undefined;
  readonly record: DecisionRecord;
  readonly startedMs: number;
}

/** What a leg has besides its choice. */
export interface LegOptions {
  /** On a new connection: the last one was cut before any answer. */
  readonly fresh: boolean;
  /** It is the decode leg of a split request: what its body says of the hand-over, and who computed the prompt. */
  readonly edits?: BodyEdits;
  readonly prefill?: Choice;
  /** What the client has of a stream that may go on elsewhere. */
  readonly stream?: ContinuedStream | undefined;
  /** Given what carries it before anything is sent. */
  onRelay?(relay: Leg): void;
}

/** Endpoints whose answer is generated, and whose stream has an end of its own. */
const GENERATES: ReadonlySet<string> = new Set(["chat", "completion", "messages", "responses"]);

/** Send to the chosen worker and relay its answer; the booking is given back whatever happens. */
export async function runLeg(core: RouterCore, routed: Routed, choice: Choice, options: LegOptions): Promise<LegRun> {
  const { exchange, request, query } = routed;
  const { worker, booking } = choice;
  const trace = exchange.trace;
  trace?.phase("forward");
  trace?.note({ "cgn.worker": worker.id, "server.address": worker.url });
  const { plan, leg } = planOrRelease(core, routed, choice, options);
  const load = core.loads.of(worker.id);
  const facts = noFacts();
  if (options.stream !== undefined && options.stream.legs > 1) facts.text = options.stream.text;
  const sentMs = core.clock.now();
  let firstMs: number | undefined;
  const seesFirst = request.stream || (plan === undefined ? folds(worker, leg) : plan.fold);
  // The first token of a whole answer is not seen: its prompt counts as computed when the prediction says so.
  const cancel = seesFirst
    ? undefined
    : core.clock.after(choice.decision.candidates[choice.decision.index]!.ttftMs, () => booking.firstToken());
  const parts: LegParts = {
    facts,
    headers: answerHeaders(exchange, choice, options.prefill),
    wantText: worker.kv.type === "history" && query !== undefined,
    stream: leg.convert === undefined ? options.stream : undefined,
    seesFirst,
    limits: core.answersOf(request.model ?? ""),
    // Of a whole answer the first token is not seen.
    onHead: () => trace?.phase(seesFirst ? "first token" : "relay"),
    onFirst: () => {
      if (firstMs === undefined && seesFirst) trace?.phase("relay");
      if (firstMs === undefined) core.health.told(worker, "good", sentMs);
      firstMs ??= core.clock.now();
      booking.firstToken();
    },
  };
  const carrier =
    plan === undefined
      ? leg.away!.leg(orderOf(routed, leg, worker, options.fresh, parts))
      : relayOf(exchange, leg, worker, plan, parts, core.clock);
  options.onRelay?.(carrier);
  load.legs.add(carrier);
  core.health.begun(worker);
  let end: LegEnd = { type: "left" };
  try {
    const ending = carrier instanceof Relay ? carrier.run(core.upstreams, worker.url, plan!.request) : carrier.run();
    if (query !== undefined) core.knowledge.sent(worker.id, query);
    end = await ending;
  } finally {
    cancel?.();
    load.legs.delete(carrier);
    booking.release();
    const { sign, why } = signOf(end, options.fresh);
    core.health.told(worker, sign, sentMs, why);
  }
  return {
    choice,
    facts,
    end,
    sentMs,
    firstMs: seesFirst ? firstMs : undefined,
    ...(options.prefill === undefined ? {} : { prefill: options.prefill }),
  };
}

/** What a leg's relay needs besides the request and its worker, wherever it runs. */
export interface LegParts extends Pick<RelayPlan, "facts" | "headers" | "wantText" | "stream" | "limits" | "onFirst"> {
  /** The first token can be told from the rest. */
  readonly seesFirst: boolean;
  onHead(): void;
}

/** What relays one leg. @param leg the request in the form for this worker */
export function relayOf(
  exchange: Exchange,
  leg: ReadRequest,
  worker: WorkerInfo,
  plan: ForwardPlan,
  parts: LegParts,
  clock: Clock,
): Relay {
  return new Relay({
    exchange,
    facts: parts.facts,
    headers: parts.headers,
    mustFinish: leg.stream && GENERATES.has(leg.kind),
    wantText: parts.wantText,
    dropUsage: plan.dropUsage,
    fold: plan.fold,
    convert: leg.convert,
    mendEvents: leg.kind === "responses" && worker.traits.sparseResponseEvents === true,
    stream: parts.stream,
    streams: parts.seesFirst,
    clock,
    limits: parts.limits,
    onHead: parts.onHead,
    onFirst: parts.onFirst,
  });
}

/** The same for the thread that has the client's connection. */
function orderOf(
  { exchange, subject }: Routed,
  leg: ReadRequest,
  worker: WorkerInfo,
  fresh: boolean,
  parts: LegParts,
): LegOrder {
  return {
    ...parts,
    worker,
    model: leg.model ?? "",
    target: leg.target,
    fresh,
    authenticated: subject.authenticated,
    engineKey: exchange.engineKey?.(worker.id),
    traceparent: exchange.trace?.traceparent(),
    opened: exchange.opened,
  };
}

/** How it is sent; undefined where another thread does that. The booking is given back when the request cannot go to this worker. */
function planOrRelease(
  core: RouterCore,
  { exchange, subject, request, legs }: Routed,
  { worker, booking }: Choice,
  { fresh, edits }: LegOptions,
): { readonly plan: ForwardPlan | undefined; readonly leg: ReadRequest } {
  try {
    const way = core.abilities.way(worker, exchange.path);
    const leg = way === undefined ? request : legs.by(way);
    if (leg.away !== undefined) return { plan: undefined, leg };
    const ask = exchange.cascade?.ask(worker, leg);
    const all = ask === undefined ? edits : { ...edits, ...ask.edits };
    const how = {
      ...(all === undefined ? {} : { edits: all }),
      ...(ask?.fold === undefined ? {} : { fold: ask.fold }),
    };
    return { plan: forwardPlan(exchange, subject, leg, worker, fresh, how), leg };
  } catch (e) {
    booking.release();
    throw e;
  }
}

function answerHeaders(exchange: Exchange, choice: Choice, prefill: Choice | undefined): Record<string, string> {
  // Of a split request the prefill worker's cache is the one that counts.
  const { predictedTokens } = prefill ?? choice;
  const headers: Record<string, string> = {
    ...exchange.ticket.headers,
    "x-request-id": exchange.id,
    "x-cgn-node": choice.worker.node,
    "x-cgn-cache-hit": predictedTokens > 0 ? "true" : "false",
    "x-cgn-predicted-cached-tokens": String(predictedTokens),
  };
  if (prefill !== undefined) headers["x-cgn-prefill-node"] = prefill.worker.node;
  if (choice.exact) headers["x-cgn-prompt-tokens"] = String(choice.promptTokens);
  return headers;
}
