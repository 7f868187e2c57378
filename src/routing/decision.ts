import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import type { EngineFigures } from "../core/worker.ts";

/** What a policy may know of a request. */
export interface RequestFacts {
  readonly model: string;
  /** Tokens of the prompt; an estimate from its bytes unless `exact`. */
  readonly promptTokens: number;
  readonly exact: boolean;
  /** Stable for one prefix: a hash of the root and the prompt's first bytes (`prefixHash()`). Unsigned, 32 bits. */
  readonly prefix: number;
}

/** Rates of one worker, learnt on line (`Calibration`). TTFT = baseMs + perTokenMs × work + perStreamMs × streams. */
export interface Rates {
  /** What a request costs that has nothing to compute. */
  readonly baseMs: number;
  readonly perTokenMs: number;
  /** What one running decode adds. */
  readonly perStreamMs: number;
  /** Standard error of the predicted mean for a typical request; large while there are few observations. */
  readonly errorMs: number;
  readonly observations: number;
  /** What it takes to bring one cached token from a tier; absent: `TIER_WORTH` says how much of computing it. */
  readonly fetchMs?: Readonly<Partial<Record<Tier, number>>>;
}

/** One ready worker at the moment of the choice. */
export interface WorkerSnapshot {
  readonly id: WorkerId;
  /** Requests that were sent there and that are not over. */
  readonly inFlight: number;
  /** Prompt tokens that it still has to compute for requests sent there before (`tokensAhead()`). */
  readonly queuedTokens: number;
  /** Requests that are past their first token. */
  readonly streams: number;
  /** Prompt tokens predicted to be in its cache. */
  readonly cachedTokens: number;
  /** Prompt tokens it would have to compute. */
  readonly uncachedTokens: number;
  /** Slowest tier among the cached. */
  readonly tier: Tier;
  readonly rates: Rates;
  /** Tokens recently placed there that were not cached, fading: how full its cache may be. */
  readonly placedTokens: number;
  /** Concurrency that it serves well, where known. */
  readonly capacity?: number;
  /** What is measured of it and its host; only `weighted` counts it. */
  readonly figures?: EngineFigures | undefined;
}

/** Milliseconds, term by term; their sum is the predicted TTFT. */
export interface CostTerms {
  readonly baseMs: number;
  /** Prompts that were sent there before and still wait. */
  readonly waitMs: number;
  /** Bringing cached blocks from a slower tier. */
  readonly fetchMs: number;
  readonly prefillMs: number;
  /** Decodes that share its steps. */
  readonly interferenceMs: number;
}

export interface Candidate {
  readonly worker: WorkerId;
  /** What the policy compared, smaller is better: milliseconds for `ttft`, its own measure for others. */
  readonly score: number;
  /** Predicted TTFT in milliseconds. Also given by policies that do not choose by it. */
  readonly ttftMs: number;
  readonly terms: CostTerms;
  /** What the time that this prompt takes there costs those who come after it; only `ttft` counts it. */
  readonly othersMs: number;
  readonly cachedTokens: number;
  readonly uncachedTokens: number;
  readonly inFlight: number;
}

export interface Decision {
  readonly policy: string;
  /** Index into the workers that were given. */
  readonly index: number;
  readonly worker: WorkerId;
  /** One for each worker given, in that order. */
  readonly candidates: readonly Candidate[];
  /** Why this one, for people. */
  readonly reason: string;
}

/**
 * A way to choose. `choose` has no side effect but a cursor of its own (round robin, random): same history of calls, same
 * answers.
 */
export interface Policy {
  readonly name: string;
  /** `workers` must not be empty. @throws RangeError when it is */
  choose(request: RequestFacts, workers: readonly WorkerSnapshot[]): Decision;
}
