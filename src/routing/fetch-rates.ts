import type { Tier } from "../core/kv-event.ts";
import { TIER_WORTH } from "./cost.ts";

/** The prior weighs as much as so many fetched tokens. */
const PRIOR_TOKENS = 20_000;
const FORGET = 0.99;
/** One request says at most that fetching takes so many times what computing would. */
const MOST = 4;

const SLOW_TIERS = ["host", "disk", "shared"] as const satisfies readonly Tier[];

/** Milliseconds a token of a tier, until something was fetched from it. */
export function priorFetchMs(tier: Tier, perTokenMs: number): number {
  return (1 - TIER_WORTH[tier]) * perTokenMs;
}

/** What it takes one worker to bring a cached token from each tier, learnt from what requests took beyond the rest of the prediction. */
export class FetchRates {
  readonly #sums = new Map<Tier, { tokens: number; ms: number }>();

  /**
   * @param tokens prompt tokens that came from `tier`
   * @param beyondMs TTFT less all that was predicted but the fetch
   * @param perTokenMs of computing, the measure of what is possible
   */
  observe(tier: Tier, tokens: number, beyondMs: number, perTokenMs: number): void {
    if (tier === "device" || !(tokens > 0) || !Number.isFinite(tokens + beyondMs)) return;
    let sums = this.#sums.get(tier);
    if (sums === undefined) this.#sums.set(tier, (sums = { tokens: 0, ms: 0 }));
    sums.tokens = sums.tokens * FORGET + tokens;
    sums.ms = sums.ms * FORGET + Math.min(Math.max(0, beyondMs), MOST * perTokenMs * tokens);
  }

  /** Milliseconds a token; undefined while nothing was fetched: then the prior holds. */
  rates(perTokenMs: number): Readonly<Partial<Record<Tier, number>>> | undefined {
    if (this.#sums.size === 0) return undefined;
    const rates: Partial<Record<Tier, number>> = {};
    for (const tier of SLOW_TIERS) {
      const { tokens, ms } = this.#sums.get(tier) ?? { tokens: 0, ms: 0 };
      const priorMs = PRIOR_TOKENS * priorFetchMs(tier, perTokenMs);
      rates[tier] = (ms + priorMs) / (tokens + PRIOR_TOKENS);
    }
    return rates;
  }
}
