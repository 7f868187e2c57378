import { pricedCandidate, TIER_WORTH } from "./cost.ts";
import type { Candidate, Decision, Policy, RequestFacts, WorkerSnapshot } from "./decision.ts";
import { rendezvousWeight } from "./rendezvous.ts";

/**
 * Share of this prompt's whole prefill that may be given up to spread prefixes. A short prefix that all chats have in
 * common (a system prompt) must not draw every chat to the one worker that saw it first.
 */
const SPREAD_SHARE = 0.1;

/** Caches whose recent load differs by less than this share count as equally full. */
const FULLNESS_SHARE = 0.1;

/** However many wait: beyond this, hits would count for so much that one worker's queue grows while others are free. */
const MAX_FOLLOWERS = 2;

/**
 * The default: least predicted time to first token, its own and (`othersMs`) that of those who come after. Near ties go to the worker whose cache is emptiest, then to the
 * prefix's own home (rendezvous hash), so that cold prefixes spread and each finds its place again.
 */
export function createTtftPolicy(): Policy {
  return { name: "ttft", choose };
}

function choose(request: RequestFacts, workers: readonly WorkerSnapshot[]): Decision {
  if (workers.length === 0) throw new RangeError("ttft: choose() needs at least one worker");
  const candidates: Candidate[] = new Array(workers.length);
  const followers = expectedFollowers(workers);
  let best = 0;
  for (let i = 0; i < workers.length; i++) {
    candidates[i] = pricedCandidate(workers[i]!, followers);
    if (candidates[i]!.score < candidates[best]!.score) best = i;
  }
  const index = breakTies(request, workers, candidates, best);
  return { policy: "ttft", index, worker: workers[index]!.id, candidates, reason: explain(candidates, best, index) };
}

/**
 * How many will wait for what is computed now: as many as wait at a worker at this moment, on average. Time in which a worker computes
 * is lost to all who stand behind, so when queues are long a cached prefix saves more than this request's own time, and when
 * all are idle only its own. The same for all workers: a queue of one's own is in `waitMs` already.
 */
function expectedFollowers(workers: readonly WorkerSnapshot[]): number {
  let waiting = 0;
  for (const { inFlight, streams } of workers) waiting += inFlight - streams;
  return Math.min(MAX_FOLLOWERS, Math.max(0, waiting) / workers.length);
}

function breakTies(
  r: RequestFacts,
  workers: readonly WorkerSnapshot[],
  cs: readonly Candidate[],
  best: number,
): number {
  let emptiest = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let i = 0; i < workers.length; i++) {
    if (!isTie(r, workers, cs, best, i)) continue;
    ties++;
    emptiest = Math.min(emptiest, workers[i]!.placedTokens);
  }
  if (ties === 1) return best;
  const equallyEmpty = emptiest + Math.max(r.promptTokens / 2, emptiest * FULLNESS_SHARE);
  let index = best;
  let bestWeight = -1;
  for (let i = 0; i < workers.length; i++) {
    if (workers[i]!.placedTokens > equallyEmpty || !isTie(r, workers, cs, best, i)) continue;
    const weight = rendezvousWeight(r.prefix, workers[i]!.id);
    if (weight > bestWeight) {
      index = i;
      bestWeight = weight;
    }
  }
  return index;
}

/**
 * Near tie, in either of two senses: (1) what would be given up is a small share of this prompt's own prefill; (2) nothing
 * we can see speaks against it (cache, queue, streams), only rates that were learnt with an error as large as the gap.
 * The error alone must never outweigh a known prefix or a known queue.
 */
function isTie(
  r: RequestFacts,
  workers: readonly WorkerSnapshot[],
  cs: readonly Candidate[],
  best: number,
  i: number,
): boolean {
  if (i === best) return true;
  const b = workers[best]!;
  const w = workers[i]!;
  const gap = cs[i]!.score - cs[best]!.score;
  if (w.inFlight <= b.inFlight && gap <= SPREAD_SHARE * r.promptTokens * b.rates.perTokenMs) return true;
  const cached = w.cachedTokens * TIER_WORTH[w.tier] >= b.cachedTokens * TIER_WORTH[b.tier];
  const noWorse = cached && w.queuedTokens <= b.queuedTokens && w.inFlight <= b.inFlight;
  return noWorse && gap <= w.rates.errorMs + b.rates.errorMs;
}

function explain(cs: readonly Candidate[], best: number, index: number): string {
  const won = cs[index]!;
  if (cs.length === 1) return "only worker that may be asked now";
  if (index !== best) {
    const lost = (won.score - cs[best]!.score).toFixed(1);
    return `near tie (${lost} ms above the least): its cache is emptier or it is this prefix's home`;
  }
  const cached = won.cachedTokens > 0 ? `, ${won.cachedTokens} tokens cached` : "";
  const others = won.othersMs < 0.05 ? "" : ` and ${won.othersMs.toFixed(1)} ms for those behind`;
  return `least predicted TTFT: ${won.ttftMs.toFixed(1)} ms${others}${cached}`;
}
