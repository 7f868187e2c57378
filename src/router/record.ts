import { CODES, toCgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";
import type { Choice } from "./choose.ts";
import type { RouterCore } from "./core.ts";
import type { AttemptRecord, ChosenRecord, DecisionRecord, Writable } from "./decisions.ts";
import type { ReadRequest } from "./read.ts";
import type { Prompt } from "./render.ts";

/** Begin a request's record. */
export function newRecord(core: RouterCore, exchange: Exchange, request: ReadRequest, prompt: Prompt): DecisionRecord {
  const unmatched = prompt.reason ?? (request.readsCache ? undefined : "the engine does not read its cache for it");
  const record: Writable<DecisionRecord> = {
    id: exchange.id,
    at: core.clock.wall(),
    model: request.model ?? "",
    path: exchange.path,
    stream: request.stream,
    policy: core.settings.policy,
    promptBytes: prompt.length,
    attempts: [],
  };
  // Not spread into the literal: each of these is rare, and a spread costs every request.
  if (exchange.subject.authenticated) record.subject = exchange.subject.name;
  if (exchange.trace !== undefined) record.traceId = exchange.trace.traceId;
  if (unmatched !== undefined) record.unmatched = unmatched;
  if (exchange.waitedMs !== 0) record.waitedMs = exchange.waitedMs;
  if (exchange.queuedMs !== 0) record.queuedMs = exchange.queuedMs;
  exchange.cascade?.begin(record);
  core.decisions.add(record);
  return record;
}

/** The first choice for a request. */
export function noteDecision(core: RouterCore, record: DecisionRecord, choice: Choice, tookMs: number): void {
  record.policy = choice.decision.policy;
  record.promptTokens = choice.promptTokens;
  record.decisionUs = Math.round(tookMs * 1000);
  core.metrics.decided(tookMs);
}

/** A try of it. @param prefill who computes the prompt of a split request; a text: why there is none */
export function noteAttempt(core: RouterCore, record: DecisionRecord, choice: Choice, prefill?: Choice | string): void {
  const heldBack = core.fleet.allHeldBack(record.model);
  const attempt: Writable<AttemptRecord> = chosen(choice);
  if (heldBack !== undefined) attempt.heldBack = heldBack;
  if (typeof prefill === "string") attempt.whole = prefill;
  else if (prefill !== undefined) attempt.prefill = chosen(prefill);
  // Not `push()`: it makes room for 17 at the first.
  record.attempts = record.attempts.length === 0 ? [attempt] : [...record.attempts, attempt];
}

function chosen({ worker, decision, predictedTokens }: Choice): ChosenRecord {
  const { candidates, reason } = decision;
  return { worker: worker.id, node: worker.node, reason, predictedCachedTokens: predictedTokens, candidates };
}

/** The request failed before or between its tries. */
export function noteFailure(core: RouterCore, exchange: Exchange, record: DecisionRecord, e: unknown): void {
  const { code, message } = toCgnError(e);
  const result = code === "CALLER_LEFT" ? "cancelled" : "rejected";
  const totalMs = core.clock.now() - exchange.startedMs;
  record.outcome = { result, status: CODES[code].http, error: message, totalMs };
}
