import type { Tier } from "../core/kv-event.ts";
import type { Candidate, CostTerms, WorkerSnapshot } from "./decision.ts";

/**
 * Share of the prefill time that a cached token saves, by tier: device 1, host 0.75, disk 0.25 as in Dynamo's and
 * vLLM router's defaults; a store on another host is taken as slow as a disk.
 */
export const TIER_WORTH: Readonly<Record<Tier, number>> = { device: 1, host: 0.75, disk: 0.25, shared: 0.25 };

/** Predict a request's TTFT on one worker, term by term. */
export function costTerms(w: WorkerSnapshot): CostTerms {
  const { rates, tier } = w;
  const fetchMs = rates.fetchMs?.[tier] ?? (1 - TIER_WORTH[tier]) * rates.perTokenMs;
  return {
    baseMs: rates.baseMs,
    waitMs: w.queuedTokens * rates.perTokenMs,
    fetchMs: w.cachedTokens === 0 ? 0 : w.cachedTokens * fetchMs,
    prefillMs: w.uncachedTokens * rates.perTokenMs,
    interferenceMs: w.streams * rates.perStreamMs,
  };
}

export function sumTerms(t: CostTerms): number {
  return t.baseMs + t.waitMs + t.fetchMs + t.prefillMs + t.interferenceMs;
}

/** A worker as a candidate; `score` defaults to its predicted TTFT. */
export function candidate(w: WorkerSnapshot, score?: number): Candidate {
  const terms = costTerms(w);
  const ttftMs = sumTerms(terms);
  return candidateOf(w, terms, ttftMs, 0, score ?? ttftMs);
}

/**
 * A worker as a candidate for `ttft`: its score is the predicted TTFT and what those who come after lose.
 * @param followers how many are expected to wait for this prompt to be computed
 */
export function pricedCandidate(w: WorkerSnapshot, followers: number): Candidate {
  const terms = costTerms(w);
  const ttftMs = sumTerms(terms);
  const othersMs = followers * (terms.prefillMs + terms.fetchMs);
  return candidateOf(w, terms, ttftMs, othersMs, ttftMs + othersMs);
}

function candidateOf(w: WorkerSnapshot, terms: CostTerms, ttftMs: number, othersMs: number, score: number): Candidate {
  return {
    worker: w.id,
    score,
    ttftMs,
    terms,
    othersMs,
    cachedTokens: w.cachedTokens,
    uncachedTokens: w.uncachedTokens,
    inFlight: w.inFlight,
  };
}
