import { requireScope } from "../access/access.ts";
import { CgnError, toCgnError } from "../core/errors.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { discardBody } from "../http/body.ts";
import type { Exchange } from "./accept.ts";
import { findChain, serveCascade } from "./cascade.ts";
import type { Choice, Question } from "./choose.ts";
import { chooseWay, type Way } from "./choose-way.ts";
import { continueStream, openContinuation } from "./continue-stream.ts";
import type { RouterCore } from "./core.ts";
import { answerCors } from "./cors.ts";
import type { DecisionRecord } from "./decisions.ts";
import { type FailedTry, trySplit } from "./disaggregate.ts";
import { type Endpoint, findEndpoint } from "./endpoints.ts";
import type { Federation } from "./federation.ts";
import { type ModelGroup, noWorker } from "./fleet.ts";
import { Retries, retryPauseMs } from "./forward.ts";
import { answerHealth } from "./front-health.ts";
import { giveUp } from "./give-up.ts";
import { identify, requireModel, type Subject } from "./identify.ts";
import { type Routed, runLeg } from "./leg.ts";
import { LegRequests } from "./leg-requests.ts";
import { match } from "./match.ts";
import { isNamedPath, noSuchPath } from "./missing-path.ts";
import { answerModels } from "./models.ts";
import { answerError } from "./opened-stream.ts";
import { checkPromptSize } from "./prompt-size.ts";
import type { ReadRequest } from "./read.ts";
import { readRequest } from "./read-request.ts";
import { newRecord, noteAttempt, noteDecision, noteFailure } from "./record.ts";
import { type Prompt, type PromptRenderer, render } from "./render.ts";
import { beginTrace, endTrace, noteTrace } from "./request-tracing.ts";
import { rootOf } from "./root.ts";
import { settle } from "./settle.ts";
import { ownDeadline } from "./wait-room.ts";

/**
 * The way of a request: accept → identify → read → admit → render → match → choose + book → forward → relay → settle.
 *
 * (Limits are by model, so admission comes after reading.) Each step takes a value and gives the next one; only `forward`
 * and `relay` touch the network. Answers its own errors; throws only what is a bug.
 */
export async function serve(core: RouterCore, exchange: Exchange): Promise<void> {
  let model = "";
  let asked: ReadRequest | undefined;
  try {
    if (core.settings.cors !== undefined && answerCors(core.settings.cors, exchange)) return;
    if (core.tracer !== undefined) beginTrace(core.tracer, exchange);
    const endpoint = requireEndpoint(exchange);
    if (endpoint.kind === "health") return answerHealth(core.fleet, exchange);
    const pendingSubject = identify(core.access, exchange);
    const subject = pendingSubject instanceof Promise ? await pendingSubject : pendingSubject;
    exchange.subject = subject;
    if (subject.authenticated) exchange.engineKey = core.engineKey;
    requireScope(subject, "inference", exchange.path);
    if (endpoint.kind === "models") return answerModels(core.fleet, core.cascades, exchange);
    if (exchange.left) throw new CgnError("CALLER_LEFT", "Client left while its key was checked", {});
    // Also where nobody waits: a deadline that is not understood is not kept.
    ownDeadline(exchange);
    exchange.trace?.phase("read");
    const { body: from } = exchange;
    const pendingRequest =
      "isAway" in from ? from.read() : readRequest(endpoint, from, exchange.target, core.settings.maxBodyBytes);
    const request = pendingRequest instanceof Promise ? await pendingRequest : pendingRequest;
    const wanted = request.model ?? onlyModel(core, exchange.path);
    exchange.trace?.phase("queue");
    requireModel(subject, wanted);
    const pendingTicket = core.access.admit(subject);
    exchange.ticket = pendingTicket instanceof Promise ? await pendingTicket : pendingTicket;
    // From here on a refusal is this cluster's, and another one may better it.
    asked = request;
    const chain = findChain(core, wanted);
    if (chain !== undefined) {
      model = chain.name;
      await serveCascade(core, exchange, request, chain, (step) => serveStep(core, exchange, subject, step));
      return;
    }
    // Only names that exist become labels of metrics.
    model = core.fleet.group(wanted)?.model ?? "";
    const pendingGroup = core.waits.ready(wanted, exchange, request.stream);
    const group = pendingGroup instanceof Promise ? await pendingGroup : pendingGroup;
    model = group.model;
    const pending = core.admissions.admit(model, () => core.fleet.group(group.model)?.ready.length ?? 0, exchange);
    const admission = pending instanceof Promise ? await queued(core, exchange, pending) : pending;
    core.metrics.admitted(model, 1);
    try {
      await route(core, exchange, subject, { ...request, model, root: rootOf(request, group) });
    } finally {
      admission.release();
      core.metrics.admitted(model, -1);
    }
  } catch (e) {
    if ((await core.federation?.takeOver(core, exchange, asked, e)) !== true) refuse(core, exchange, model, e);
  } finally {
    // Nothing is paid for what was not sent.
    exchange.ticket.end(0);
    if (exchange.trace !== undefined) endTrace(exchange.trace, exchange, model);
  }
}

/** A request for one model of a cascade. */
async function serveStep(core: RouterCore, exchange: Exchange, subject: Subject, request: ReadRequest): Promise<void> {
  const { model = "" } = request;
  const group = await core.waits.ready(model, exchange, request.stream);
  const pending = core.admissions.admit(model, () => core.fleet.group(model)?.ready.length ?? 0, exchange);
  const admission = pending instanceof Promise ? await queued(core, exchange, pending) : pending;
  core.metrics.admitted(model, 1);
  try {
    await route(core, exchange, subject, { ...request, root: rootOf(request, group) });
  } finally {
    admission.release();
    core.metrics.admitted(model, -1);
  }
}

/** Wait for a place, and note how long. */
async function queued<T>(core: RouterCore, exchange: Exchange, pending: Promise<T>): Promise<T> {
  const since = core.clock.now();
  try {
    return await pending;
  } finally {
    exchange.queuedMs = core.clock.now() - since;
  }
}

/** Render, match, and try workers until one answers or none is left. */
async function route(core: RouterCore, exchange: Exchange, subject: Subject, asked: ReadRequest): Promise<void> {
  const model = asked.model ?? "";
  const pendingGroup = core.waits.ready(model, exchange, asked.stream);
  const group = pendingGroup instanceof Promise ? await pendingGroup : pendingGroup;
  const startedMs = core.clock.now();
  exchange.trace?.phase("render");
  const request = mustCome(core, exchange, asked, group) ? await brought(asked) : asked;
  const legs = new LegRequests(request, exchange);
  const pendingPrompt = request.away?.prompt(request) ?? renderHere(core, exchange, group, request, legs);
  const prompt = pendingPrompt instanceof Promise ? await pendingPrompt : pendingPrompt;
  const query =
    prompt.bytes === undefined ? undefined : { model, root: request.root, prompt: prompt.bytes, matchedMs: undefined };
  exchange.trace?.phase("match");
  const pendingMatches = match(core.knowledge, request.readsCache ? query : undefined, core.clock, core.log);
  const matches = pendingMatches instanceof Promise ? await pendingMatches : pendingMatches;
  const session = exchange.req.headers["x-cgn-session"];
  const question: Question = { prompt, matches, session: typeof session === "string" ? session : undefined };
  const record = newRecord(core, exchange, request, prompt);
  try {
    checkPromptSize(core, exchange, request, prompt);
    await tryWorkers(core, { exchange, subject, request, legs, question, query, record, startedMs });
  } catch (e) {
    noteFailure(core, exchange, record, e);
    throw e;
  } finally {
    exchange.ticket.end(usedTokens(record));
    core.metrics.subjects.used(exchange.subject, record);
    if (exchange.trace !== undefined) noteTrace(exchange.trace, record);
    core.requestLog?.note(record, request.root, prompt.bytes);
    if (query !== undefined) core.prefixes.note(exchange.id, query);
  }
}

function renderHere(
  core: RouterCore,
  { path }: Exchange,
  group: ModelGroup,
  request: ReadRequest,
  legs: LegRequests,
): Prompt | Promise<Prompt> {
  const pending = core.renderers.get(group);
  if (pending instanceof Promise) return pending.then((renderer) => renderBy(renderer));
  return renderBy(pending);
  function renderBy(renderer: PromptRenderer | undefined): Prompt | Promise<Prompt> {
    const conversion = core.abilities.commonConversion(group, path);
    return render(conversion === undefined ? request : legs.chat(conversion), renderer, core.log);
  }
}

/** What a request is billed: the engine's own figures; undefined where it worked and told none; 0 where it did not answer. */
function usedTokens({ outcome }: DecisionRecord): number | undefined {
  if (outcome === undefined || outcome.result === "rejected" || outcome.result === "upstream_error") return 0;
  if (outcome.result === "client_error") return 0;
  if (outcome.promptTokens === undefined) return undefined;
  return outcome.promptTokens + (outcome.completionTokens ?? 0);
}

async function tryWorkers(core: RouterCore, first: Routed): Promise<void> {
  let routed = first;
  const { exchange, question, record } = routed;
  const { model = "", stream: streams } = routed.request;
  const retries = new Retries();
  let only: WorkerInfo | undefined;
  let failed: FailedTry | undefined;
  const stream = openContinuation(core, routed);
  for (;;) {
    // Where there are other routers: nobody else chooses until this one has booked.
    const turn = core.share?.turn();
    if (turn !== undefined) await turn;
    if (exchange.left) throw new CgnError("CALLER_LEFT", "Client left before its request was sent", {});
    const all = core.waits.ready(model, exchange, streams);
    if (all instanceof Promise) {
      await all;
      continue;
    }
    if (mustCome(core, exchange, routed.request, all)) {
      const request = await brought(routed.request);
      routed = { ...routed, request, legs: new LegRequests(request, exchange) };
      continue;
    }
    // From here to the booking nothing waits: the group is the one of this very moment.
    const able = routed.legs.able(core.abilities, all.ready, exchange.path);
    if (able.length === 0 && all.ready.length > 0) throw lacking(core, all, exchange.path);
    const same = only === undefined ? undefined : able.find((worker) => worker.id === only?.id);
    const group = same !== undefined ? { ...all, ready: [same] } : able === all.ready ? all : { ...all, ready: able };
    exchange.trace?.phase("choose");
    const { json, unmatched } = routed.request;
    const asked = { path: exchange.path, json, unmatched };
    const way = chooseWay(core.chooser, core.splitter, group, question, asked, retries.tried);
    if (way === undefined) {
      if (failed === undefined) throw noWorker(core.fleet, group);
      return giveUp(core, exchange, record, failed.choice, failed.end);
    }
    const choice = way.type === "whole" ? way.choice : way.decode;
    if (core.federation !== undefined && failed === undefined)
      requireInTime(core.federation, core, exchange, model, way);
    if (record.attempts.length === 0) noteDecision(core, record, choice, core.clock.now() - routed.startedMs);
    noteAttempt(core, record, choice, way.type === "whole" ? way.note : way.prefill);
    if (way.type === "split") {
      const fresh = [way.prefill, way.decode].some(({ worker }) => retries.renewed.has(worker.id));
      failed = await trySplit(core, routed, way, fresh);
      if (failed === undefined) return;
      if (!(await mayRetry(core, routed, retries, failed))) return;
      only = undefined;
      continue;
    }
    const run = await runLeg(core, routed, choice, { fresh: retries.renewed.has(choice.worker.id), stream });
    exchange.trace?.phase(run.end.type === "retry" ? "retry" : "settle");
    if (run.end.type !== "retry") {
      const last =
        stream !== undefined && run.end.type === "cut" ? await continueStream(core, routed, run, stream) : run;
      return settle(core, exchange, routed.request, question.prompt, record, last);
    }
    if (routed.query !== undefined) core.knowledge.unsent?.(choice.worker.id, routed.query);
    core.metrics.legEnded(choice.worker.id, "retried");
    if (run.end.lacks !== undefined && core.abilities.learn(choice.worker, run.end.lacks, run.end.held)) {
      record.attempts.at(-1)!.failed = `it has no ${run.end.lacks}`;
      continue;
    }
    failed = { choice, end: run.end };
    const next = await mayRetry(core, routed, retries, failed);
    if (!next) return;
    only = next === "same" ? choice.worker : undefined;
  }
}

/** The places are given back where another cluster is to be asked. @throws CgnError OVERLOADED */
function requireInTime(federation: Federation, core: RouterCore, exchange: Exchange, model: string, way: Way): void {
  const legs = way.type === "whole" ? [way.choice] : [way.prefill, way.decode];
  const predictedMs = legs.reduce((sum, { decision }) => sum + decision.candidates[decision.index]!.ttftMs, 0);
  try {
    federation.requireDeadline(core, exchange, model, predictedMs);
  } catch (e) {
    for (const { booking } of legs) booking.release();
    throw e;
  }
}

/** Another thread has the body, and something must be done with it that is done here alone. */
function mustCome(core: RouterCore, { path }: Exchange, { away, model }: ReadRequest, { ready }: ModelGroup): boolean {
  if (away === undefined) return false;
  if (core.answersOf(model ?? "").continueStreams || ready.some(({ role }) => role !== "both")) return true;
  return core.abilities.conversionFor(ready, path) !== undefined;
}

/** The same request with its body here. */
async function brought(request: ReadRequest): Promise<ReadRequest> {
  const { model, root } = request;
  return { ...(await request.away!.bring()), model, root };
}

/** After a failed try: whom to ask now, once it is time to. False: nobody, and the client was told. */
async function mayRetry(
  core: RouterCore,
  { exchange, request, record }: Routed,
  retries: Retries,
  { choice, end }: FailedTry,
): Promise<"same" | "other" | false> {
  const model = request.model ?? "";
  record.attempts.at(-1)!.failed = `${end.failure.kind}: ${end.failure.message}`;
  const next = retries.next(choice.worker.id, end, others(core, exchange, model, choice, retries));
  if (next === undefined) {
    giveUp(core, exchange, record, choice, end);
    return false;
  }
  core.metrics.retried(model, end.failure.kind);
  if (next === "other") await pause(core, retryPauseMs(record.attempts.length, core.random()));
  return next;
}

const pause = (core: RouterCore, ms: number): Promise<void> =>
  new Promise((resolve) => void core.clock.after(ms, resolve));

/** No ready worker has the endpoint: not now, if one that is not ready may have it. */
function lacking(core: RouterCore, group: ModelGroup, path: string): CgnError {
  const some = core.abilities.able(group.workers, path).length > 0;
  return some ? noWorker(core.fleet, { ...group, ready: [] }) : core.abilities.refusal(group, path);
}

function requireEndpoint(exchange: Exchange): Endpoint {
  const { method, path, res } = exchange;
  if (exchange.target === undefined) {
    throw new CgnError("REQUEST_INVALID", `Cannot read the path ${path}: it is no path. Encode "%" as "%25"`, {});
  }
  const endpoint = findEndpoint(path);
  if (endpoint === undefined) {
    throw noSuchPath(path);
  }
  if (endpoint.method === undefined || endpoint.method === method) return endpoint;
  // Node leaves the body of an answer to HEAD out.
  if (endpoint.method === "GET" && method === "HEAD") return endpoint;
  res.setHeader("allow", endpoint.method);
  throw new CgnError("METHOD_NOT_ALLOWED", `Cannot ${method} ${path}: it takes ${endpoint.method} only`, {
    method,
    path,
  });
}

/** The model of a request that names none, where the endpoint allows that: the only one there is. */
function onlyModel(core: RouterCore, path: string): string {
  const models = core.fleet.models();
  if (models.length === 1) return models[0]!;
  if (!isNamedPath(path)) throw noSuchPath(path, "no such path is known, and the request names no model to ask");
  const message =
    'Cannot route the request: it names no model, and there are several. Add "model" to the body, or ?model=';
  throw new CgnError("REQUEST_INVALID", message, { param: "model", known: models });
}

/** Ready workers that could still be asked besides the one that just failed. */
function others(core: RouterCore, { path }: Exchange, model: string, { worker }: Choice, { tried }: Retries): number {
  const able = core.abilities.able(core.fleet.group(model)?.ready ?? [], path);
  return able.filter((w) => w.id !== worker.id && !tried.has(w.id)).length;
}

/** Answer an error of the router's own, and count it. */
function refuse(core: RouterCore, exchange: Exchange, model: string, e: unknown): void {
  const { body } = exchange;
  const error = toCgnError(e);
  if (error.code === "BUG")
    core.log.error("A request met a fault of the router", {
      id: exchange.id,
      ...(exchange.trace === undefined ? {} : { trace_id: exchange.trace.traceId }),
      said: error.message,
      stack: error.cause instanceof Error ? error.cause.stack : undefined,
    });
  core.metrics.refused(model, error, exchange.subject);
  if (error.code === "CALLER_LEFT") return;
  // RFC 9110 wants a 401 to say how to do better.
  if (error.code === "UNAUTHENTICATED" && !exchange.res.headersSent)
    exchange.res.setHeader("www-authenticate", "Bearer");
  const more = "headers" in error.details ? (error.details.headers as Readonly<Record<string, string>>) : {};
  answerError(exchange, error, { ...more, "x-request-id": exchange.id });
  // In the midst of an answer only the connection's end tells that it is not whole; nobody may wait for the rest.
  if (!exchange.res.writableEnded) exchange.res.destroy();
  if (!("isAway" in body) && !body.complete) discardBody(body);
}
