import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import type { WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Decision, Policy, WorkerSnapshot } from "../routing/decision.ts";
import type { Learning } from "../routing/learning.ts";
import { Booking, type LoadBook, type LoadView } from "../routing/load.ts";
import { textHash } from "../routing/rendezvous.ts";
import { workerSnapshot } from "../routing/snapshot.ts";
import type { ModelGroup } from "./fleet.ts";
import type { Prompt } from "./render.ts";

/** A worker chosen and booked. */
export interface Choice {
  readonly worker: WorkerInfo;
  readonly decision: Decision;
  readonly booking: Booking;
  /** What the index said for it. */
  readonly predictedTokens: number;
  /** Tokens of the whole prompt; an estimate unless `exact`. */
  readonly promptTokens: number;
  readonly exact: boolean;
  /** What was still to be computed there before this request, for calibration. */
  readonly queuedTokens: number;
  readonly streams: number;
  /** Where its cached tokens were believed to lie. */
  readonly tier: Tier;
}

export interface Chooser {
  readonly policy: (model: string) => Policy;
  readonly loads: LoadBook;
  /** What other routers have on a worker, where they tell. */
  readonly others?: (worker: WorkerId) => readonly LoadView[];
  readonly learning: Learning;
  readonly clock: Clock;
  /** `[router.admission].max_concurrent_per_replica`, where written. */
  readonly perReplica: number | undefined;
  /** `[router.admission].ttft_slo`, where written: what is predicted to take longer is refused. */
  readonly ttftSloMs: number | undefined;
}

/** What is asked: a prompt, who holds how much of it, and an affinity that the client named. */
export interface Question {
  readonly prompt: Prompt;
  readonly matches: readonly WorkerMatch[];
  /** `x-cgn-session` */
  readonly session: string | undefined;
}

/** A worker that would be chosen; nothing is booked yet. */
export interface Proposal extends Omit<Choice, "booking"> {
  readonly ttftMs: number;
  /** Prompt tokens that it would compute. */
  readonly uncachedTokens: number;
}

/**
 * Choose among workers; undefined when there are none. Booked (`book()`) in the same synchronous step, two requests never see the
 * same free worker.
 *
 * @param name of the policy's own state: one that takes turns does so by model, and by part where requests are split
 * @param adapt what the policy sees of a worker, where that is not its whole prefill
 */
export function propose(
  c: Chooser,
  workers: readonly WorkerInfo[],
  model: string,
  q: Question,
  name: string = model,
  adapt?: (snapshot: WorkerSnapshot) => WorkerSnapshot,
): Proposal | undefined {
  const free = underCap(c, workers);
  if (free.length === 0) return undefined;
  const { prompt, session } = q;
  const nowMs = c.clock.now();
  const promptTokens = totalTokens(c, model, q);
  const held = q.matches.length === 0 ? NONE_HELD : heldBy(q.matches);
  const seen = free.map((w) => snapshot(c, w, model, q, held.get(w.id), promptTokens, nowMs));
  const facts = {
    model,
    promptTokens,
    exact: prompt.exactTokens !== undefined,
    prefix: session === undefined ? prompt.prefix : textHash(session),
  };
  const decision = c.policy(name).choose(facts, adapt === undefined ? seen : seen.map(adapt));
  const chosen = seen[decision.index]!;
  return {
    worker: free[decision.index]!,
    decision,
    predictedTokens: chosen.cachedTokens,
    tier: chosen.tier,
    promptTokens,
    exact: facts.exact,
    queuedTokens: chosen.queuedTokens,
    streams: chosen.streams,
    ttftMs: decision.candidates[decision.index]!.ttftMs,
    uncachedTokens: chosen.uncachedTokens,
  };
}

/** Prompt tokens that a worker would have to compute. */
export function uncachedTokens(c: Chooser, worker: WorkerInfo, model: string, q: Question): number {
  const held = heldBy(q.matches).get(worker.id);
  return snapshot(c, worker, model, q, held, totalTokens(c, model, q), c.clock.now()).uncachedTokens;
}

/** @param tokens prompt tokens that it computes for this request; by default all that it has not cached */
export function book(c: Chooser, proposal: Proposal, tokens: number = proposal.uncachedTokens): Choice {
  const { worker, decision, predictedTokens, promptTokens, exact, queuedTokens, streams, tier } = proposal;
  const booking = new Booking(c.loads.of(worker.id), tokens, c.clock);
  return { worker, decision, booking, predictedTokens, promptTokens, exact, queuedTokens, streams, tier };
}

/**
 * Choose among the group's ready workers and book the place. Undefined when all of them are in `tried`.
 * @throws CgnError OVERLOADED when even the chosen one's predicted TTFT is above the written limit
 */
export function chooseAndBook(
  c: Chooser,
  group: ModelGroup,
  q: Question,
  tried: ReadonlySet<WorkerId>,
): Choice | undefined {
  const free = tried.size === 0 ? group.ready : group.ready.filter((w) => !tried.has(w.id));
  const proposal = propose(c, free, group.model, q);
  if (proposal === undefined) return undefined;
  requireSlo(c, group.model, [proposal]);
  return book(c, proposal);
}

/**
 * @param way the legs by which it would be computed
 * @throws CgnError OVERLOADED above `[router.admission].ttft_slo`; without a time to try again where the prompt alone takes longer
 */
export function requireSlo(c: Chooser, model: string, way: readonly Proposal[]): void {
  if (c.ttftSloMs === undefined) return;
  const predictedMs = sumOf(way, (leg) => leg.ttftMs);
  if (predictedMs > c.ttftSloMs) throw overSlo(model, predictedMs, sumOf(way, ownMs), c.ttftSloMs);
}

const sumOf = (way: readonly Proposal[], ms: (leg: Proposal) => number): number =>
  way.reduce((sum, leg) => sum + ms(leg), 0);

/** What a leg would take at best if nothing else were under way. */
function ownMs({ decision }: Proposal): number {
  return Math.min(...decision.candidates.map(({ ttftMs, terms }) => ttftMs - terms.waitMs - terms.interferenceMs));
}

function overSlo(model: string, predictedMs: number, aloneMs: number, limitMs: number): CgnError {
  const inVain = aloneMs > limitMs;
  const of = inVain ? ` (${Math.round(aloneMs)} ms where nothing else runs)` : "";
  const is = `its first token is predicted after ${Math.round(predictedMs)} ms${of}, the limit is ${limitMs} ms (router.admission.ttft_slo)`;
  const should = inVain ? "Send a shorter prompt, or raise the limit" : "Try again later, or add engines";
  return new CgnError("OVERLOADED", `Cannot admit a request for "${model}": ${is}. ${should}`, {
    ...(inVain ? {} : { retryAfterS: Math.ceil((predictedMs - limitMs) / 1000) }),
    reason: "predicted TTFT",
  } as { retryAfterS?: number }) as CgnError;
}

/** Workers with a place under the written cap; all of them when none has (admission let it in, a worker fell away since). */
function underCap(c: Chooser, workers: readonly WorkerInfo[]): readonly WorkerInfo[] {
  const cap = c.perReplica;
  if (cap === undefined) return workers;
  const under = workers.filter((w) => c.loads.of(w.id).inFlight < cap);
  return under.length > 0 ? under : workers;
}

/** The whole prompt's tokens: the part that some worker holds is known in tokens, the rest is estimated from its bytes. */
function totalTokens(c: Chooser, model: string, { prompt, matches }: Question): number {
  if (prompt.exactTokens !== undefined) return prompt.exactTokens;
  const ratio = c.learning.ratio(model, prompt.bytes !== undefined);
  let best: WorkerMatch | undefined;
  for (const m of matches) if (best === undefined || m.bytes > best.bytes) best = m;
  if (best === undefined) return ratio.tokens(prompt.length);
  // The last token of a prompt that is held whole does not count as held.
  return best.tokens + (best.bytes >= prompt.length ? 1 : ratio.tokens(prompt.length - best.bytes));
}

const NO_OTHERS: readonly LoadView[] = [];
const NONE_HELD: ReadonlyMap<WorkerId, WorkerMatch> = new Map();

/** By worker: looking each one up in the list takes longer than all else where there are many. */
function heldBy(matches: readonly WorkerMatch[]): ReadonlyMap<WorkerId, WorkerMatch> {
  const held = new Map<WorkerId, WorkerMatch>();
  for (const m of matches) held.set(m.worker, m);
  return held;
}

function snapshot(
  c: Chooser,
  worker: WorkerInfo,
  model: string,
  { prompt: { exactTokens } }: Question,
  found: WorkerMatch | undefined,
  promptTokens: number,
  nowMs: number,
): WorkerSnapshot {
  // A prompt's last token is always computed: no more than the rest can come from the cache.
  const limit = exactTokens === undefined ? Number.POSITIVE_INFINITY : Math.max(0, exactTokens - 1);
  return workerSnapshot({
    id: worker.id,
    load: c.loads.of(worker.id),
    others: c.others?.(worker.id) ?? NO_OTHERS,
    rates: c.learning.rates(worker.id, model),
    promptTokens,
    cachedTokens: Math.min(found?.tokens ?? 0, limit),
    tier: found?.tier ?? "device",
    nowMs,
    capacity: c.perReplica,
    figures: worker.figures,
  });
}
