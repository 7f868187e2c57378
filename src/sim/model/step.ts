import type { EngineLimits } from "./limits.ts";
import { type EngineProfile, stepDurationMs } from "./profile.ts";
import { decodes, type Run } from "./run.ts";

/** Work under way: one step, or several equal ones in which every answer only grows. */
export interface Step {
  readonly startedAt: number;
  /** Who takes part; each run's `target` says how far. */
  readonly work: readonly Run[];
  /** Of the first of its steps. */
  readonly firstMs: number;
  /** By how much each next one takes longer, since contexts grow. */
  readonly growthMs: number;
  /** How many steps; more than 1 only when all of `work` decodes. */
  count: number;
}

/** When `count` steps of it are over. */
export function endOf(step: Step, count = step.count): number {
  return step.startedAt + count * step.firstMs + (step.growthMs * count * (count - 1)) / 2;
}

/**
 * How many of its steps have begun at a time within it: at least 1.
 * @param over a step that ends right then is over, and the next one has begun
 */
export function stepsBegun(step: Step, at: number, over: boolean): number {
  let low = 1;
  let high = step.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    const end = endOf(step, middle);
    if (over ? end > at : end >= at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Tokens that a decode gains a step, as a rate: the accepted drafts and the one that is computed anyway. */
export function tokensPerStep(speculative: EngineLimits["speculative"]): number {
  if (speculative === undefined) return 1;
  let sum = 0;
  let share = 1;
  for (let i = 0; i <= speculative.tokens; i++) {
    sum += share;
    share *= speculative.acceptance;
  }
  return sum;
}

/** Milliseconds that a step with this work takes, before any slowdown. */
export function durationOf(profile: EngineProfile, work: readonly Run[], draftTokens: number): number {
  let prefillTokens = 0;
  let prefillPairs = 0;
  let narrowPairs = 0;
  const narrow = profile.narrowChunks?.tokens ?? 0;
  let decodeSequences = 0;
  let contextTokens = 0;
  for (const run of work) {
    const tokens = run.target - run.computed;
    if (decodes(run)) {
      decodeSequences++;
      contextTokens += run.target;
    } else {
      prefillTokens += tokens;
      const pairs = tokens * (run.computed + tokens / 2);
      if (tokens < narrow) narrowPairs += pairs;
      else prefillPairs += pairs;
    }
  }
  prefillTokens += decodeSequences * draftTokens;
  return stepDurationMs(profile, { prefillTokens, prefillPairs, narrowPairs, decodeSequences, contextTokens });
}

/** How many steps it takes until the first of these answers ends. */
export function stepsToEnd(work: readonly Run[], rate: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (const run of work) {
    const left = run.outputTokens - run.generated;
    const steps = rate === 1 ? left : Math.max(1, Math.ceil((left - run.credit) / rate - 1e-9));
    if (steps < least) least = steps;
  }
  return least;
}
