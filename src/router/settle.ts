import type { Clock } from "../core/clock.ts";
import type { Outcome as IndexOutcome, PredictionVerdict, PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { Learning } from "../routing/learning.ts";
import type { Exchange } from "./accept.ts";
import type { AnswerFacts } from "./answer.ts";
import type { Choice } from "./choose.ts";
import type { Splitter } from "./choose-way.ts";
import type { DecisionLog, DecisionRecord, Writable } from "./decisions.ts";
import type { ReadRequest } from "./read.ts";
import type { Prompt } from "./render.ts";
import type { Outcome, RouterMetrics } from "./router-metrics.ts";
import type { LegEnd } from "./sinks.ts";

/** One leg, from its choice to its end. */
export interface LegRun {
  readonly choice: Choice;
  readonly facts: AnswerFacts;
  readonly end: LegEnd;
  readonly sentMs: number;
  /** First sign of generated text; undefined when none was seen apart from the rest. */
  readonly firstMs: number | undefined;
  /** It is the decode leg of a split request: who computed the prompt. */
  readonly prefill?: Choice;
  /** Of a split request: when its first leg was sent. */
  readonly beganMs?: number;
  /** Of a split request whose legs ran at once: when the prompt was computed; undefined: nobody knows. */
  readonly promptedMs?: number | undefined;
  /** Other workers had begun the answer: its times and tokens tell nothing of this one. */
  readonly continued?: true;
}

export interface Settler {
  readonly splitter: Pick<Splitter, "rates">;
  readonly learning: Learning;
  readonly knowledge: PrefixKnowledge;
  readonly metrics: RouterMetrics;
  readonly decisions?: Pick<DecisionLog, "settled">;
  readonly clock: Clock;
}

/** How a request ended, for metrics and the decision log. */
export function outcomeOf(end: LegEnd, facts: AnswerFacts): Outcome {
  if (end.type === "left") return "cancelled";
  if (end.type !== "complete") return "upstream_error";
  // An engine's own word about the request; 501 is one too: what was asked is not enabled there.
  if ((end.status >= 400 && end.status < 500) || end.status === 501) return "client_error";
  return end.status >= 500 || facts.error !== undefined ? "upstream_error" : "ok";
}

/** Learn from a leg that is over, tell the index, and write down what came of the decision. */
export function settle(
  s: Settler,
  exchange: Exchange,
  request: ReadRequest,
  prompt: Prompt,
  record: DecisionRecord,
  run: LegRun,
): void {
  const { choice, facts, end, firstMs, sentMs } = run;
  // A cascade went on to the next model: this is no answer to the client, but its tokens were used.
  const escalated = exchange.cascade?.escalated(run) === true;
  const answered = end.type === "complete" && end.status < 400 && facts.error === undefined;
  if (answered && run.continued === undefined) learn(s, request, prompt, run);
  let verdict: PredictionVerdict | undefined;
  const judged = (said: PredictionVerdict): void => {
    verdict = said;
    if (record.outcome === undefined) return;
    record.outcome.prediction = said;
    s.decisions?.settled(record);
  };
  if (answered || firstMs !== undefined) tellIndex(s, request, prompt, run, answered, judged);
  else if (prompt.bytes !== undefined) {
    const query = { model: request.model ?? "", root: request.root, prompt: prompt.bytes };
    s.knowledge.unsent?.(choice.worker.id, query);
  }
  const nowMs = s.clock.now();
  const result = escalated ? "escalated" : outcomeOf(end, facts);
  const outcome: Writable<NonNullable<DecisionRecord["outcome"]>> = {
    result,
    totalMs: round(nowMs - exchange.startedMs),
  };
  if (end.type === "complete") outcome.status = end.status;
  if ("failure" in end) outcome.error = end.failure.message;
  if (firstMs !== undefined) outcome.ttftMs = round(firstMs - (run.beganMs ?? sentMs));
  if (verdict !== undefined) outcome.prediction = verdict;
  if (facts.promptTokens !== undefined) outcome.promptTokens = facts.promptTokens;
  if (facts.completionTokens !== undefined) outcome.completionTokens = facts.completionTokens;
  if (facts.cachedTokens !== undefined) outcome.cachedTokens = facts.cachedTokens;
  record.outcome = outcome;
  // A verdict that is still to come is written down then.
  if (verdict !== undefined || facts.cachedTokens === undefined) s.decisions?.settled(record);
  s.metrics.legEnded(choice.worker.id, result);
  if (result !== "escalated" && exchange.cascade?.counts !== false)
    s.metrics.ended(record.model, result, exchange.subject, {
      totalMs: nowMs - exchange.startedMs,
      firstMs: (exchange.cascade?.releasedMs ?? firstMs ?? nowMs) - exchange.startedMs,
    });
  const tokens = facts.completionTokens ?? 0;
  if (answered && firstMs !== undefined && tokens > 1) s.metrics.paced((nowMs - firstMs) / (tokens - 1));
  if (answered || escalated)
    s.metrics.tokens(
      record.model,
      choice.worker.id,
      facts,
      answered && comparable(run) ? choice.predictedTokens : undefined,
    );
}

/** The engine's own cached tokens say whether the prediction was right; a decode leg's figure is the prefill's. */
function comparable({ prefill, continued }: LegRun): boolean {
  return prefill === undefined && continued === undefined;
}

function learn(s: Settler, request: ReadRequest, prompt: Prompt, run: LegRun): void {
  const { choice, facts, firstMs, sentMs, prefill } = run;
  const { promptTokens, cachedTokens } = facts;
  if (promptTokens !== undefined) {
    s.learning.ratio(request.model ?? "", prompt.bytes !== undefined).observe(prompt.length, promptTokens);
  }
  const ttftMs = firstMs === undefined ? (facts.promptMs ?? wholeTtftMs(run, s.clock.now())) : firstMs - sentMs;
  if (ttftMs === undefined) return;
  if (prefill !== undefined) {
    // Of legs that ran at once only what came after the prompt is the hand-over's.
    const handedMs = "promptedMs" in run ? run.promptedMs : sentMs;
    if (handedMs === undefined) return;
    // What it did not hold itself it fetched.
    const fetched = Math.max(0, (promptTokens ?? choice.promptTokens) - choice.predictedTokens);
    s.splitter.rates(choice.worker.id).observe(fetched, Math.max(0, ttftMs - (handedMs - sentMs)));
    return;
  }
  s.learning.observe(choice.worker.id, request.model ?? "", {
    uncachedTokens: Math.max(0, (promptTokens ?? choice.promptTokens) - (cachedTokens ?? choice.predictedTokens)),
    queuedTokens: choice.queuedTokens,
    streams: choice.streams,
    cachedTokens: cachedTokens ?? choice.predictedTokens,
    tier: choice.tier,
    ttftMs,
  });
}

/** A prediction of more than so many times what the whole answer took was wrong; less may be chance. */
const FAR_ABOVE = 2;

/**
 * What an answer that was not streamed tells of its first token. Its time is that of its prompt and of its tokens together, and which part is
 * which cannot be told from the sum: rates of both from it would be the difference of large numbers, learnt under loads that are not known.
 * Sound are two things: of an answer of one token the whole time is its first token's, and no first token came later than the answer.
 */
export function wholeTtftMs(
  { choice, facts, sentMs, prefill }: Pick<LegRun, "choice" | "facts" | "sentMs" | "prefill">,
  nowMs: number,
): number | undefined {
  const totalMs = nowMs - sentMs;
  if (prefill !== undefined) return undefined;
  if (facts.completionTokens === 1) return totalMs;
  const predictedMs = choice.decision.candidates[choice.decision.index]!.ttftMs;
  return predictedMs > totalMs * FAR_ABOVE ? totalMs : undefined;
}

/**
 * What the engine holds now: the prompt, and the text it generated as it came. The next turn's prompt repeats that text
 * unless a template strips some of it (reasoning); then the index finds the part before.
 */
function tellIndex(
  s: Settler,
  request: ReadRequest,
  prompt: Prompt,
  run: LegRun,
  whole: boolean,
  judged: (verdict: PredictionVerdict) => void,
): void {
  if (prompt.bytes === undefined) return;
  const { choice, facts } = run;
  const { worker } = choice;
  const outcome: Writable<IndexOutcome> = {
    worker: worker.id,
    epoch: worker.epoch,
    model: request.model ?? "",
    root: request.root,
    prompt: prompt.bytes,
    predictedTokens: choice.predictedTokens,
  };
  if (facts.text) outcome.answer = Buffer.from(facts.text);
  if (whole && facts.promptTokens !== undefined) outcome.promptTokens = facts.promptTokens;
  if (whole && facts.completionTokens !== undefined) outcome.completionTokens = facts.completionTokens;
  // 0 by wish says nothing of what is cached, and a decode leg's figure nothing of its own cache.
  if (whole && facts.cachedTokens !== undefined && request.readsCache && comparable(run))
    outcome.cachedTokens = facts.cachedTokens;
  s.knowledge.observe(outcome, judged);
}

const round = (ms: number): number => Math.round(ms * 100) / 100;
