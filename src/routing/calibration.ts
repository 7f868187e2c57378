import type { Rates } from "./decision.ts";

/** One request whose first token was seen. */
export interface TtftObservation {
  /** Prompt tokens that were computed for it (after the fact where the engine said so). */
  readonly uncachedTokens: number;
  /** Tokens that were still to be computed before it when it was sent (`tokensAhead()`). */
  readonly queuedTokens: number;
  /** Decodes running then. */
  readonly streams: number;
  readonly ttftMs: number;
}

/** Until there are observations: 20 ms, 0.3 ms a token (between a GPU's 0.1 and a small model on CPU cores at 2), 1 ms a decode. */
const PRIOR = [20, 300, 1] as const;
/** How far the prior may be off (standard deviation, same units as PRIOR), against NOISE_MS. */
const PRIOR_SPREAD = [40, 2000, 5] as const;
const NOISE_MS = 30;
/** Weight of the past at each observation: about the last 200 count. */
const FORGET = 0.995;
/**
 * At first less of it, about the last two thirds of what was seen: an engine's first requests wait for what it compiles and loads, and
 * would be taken for what every request costs (seen: 430 ms for a first prompt of 6 tokens, then 40 for 1,200).
 */
const FORGET_EARLY = 0.8;
const EARLY = 1.5;
/** Residuals above this many mean deviations pull only linearly (Huber). */
const HUBER = 2;
/** So many observations are taken at full weight: a prior that is far off must not make the truth an outlier. */
const TRUSTING = 5;
/** A thousand tokens, nobody else there: what `errorMs` is told for. */
const TYPICAL = [1, 1, 0] as const;
/** The least that each may be. */
const LEAST = [0.1, 0.1, 0] as const;
const FREE = [undefined, undefined, undefined] as const;
/** Token work is counted in thousands so that the three unknowns have like sizes. */
const TOKEN_UNIT = 1000;

/** Weight of the prior in each of the three: it is never forgotten, so that what requests do not excite stays near it. */
const PRIOR_WEIGHT = PRIOR_SPREAD.map((spread) => (NOISE_MS / spread) ** 2);

/**
 * Rates of one model's workers: weighted least squares of TTFT over (1, thousands of tokens to compute before the first token, running
 * decodes), with forgetting, a prior, and Huber weights against stragglers. Constant memory, about 100 flops an observation.
 *
 * It keeps the sums of the normal equations and solves them, rather than the inverse: updated in place for thousands of requests
 * an inverse loses its sign to rounding, and the rates run away (seen in a replay of 12,000 requests).
 */
export class Calibration {
  #theta: readonly number[] = PRIOR;
  /** Σ weight · x xᵀ, fading: [3 × 3], row by row. */
  readonly #squares = new Float64Array(9);
  /** Σ weight · x · (ttft - prior's prediction), fading. [3] */
  readonly #moments = new Float64Array(3);
  #noiseMs = NOISE_MS;
  #observations = 0;
  #rates: Rates | undefined;

  /** Learn from one request. Figures that are not finite or negative are ignored. */
  observe(o: TtftObservation): void {
    const work = (o.uncachedTokens + o.queuedTokens) / TOKEN_UNIT;
    if (!(o.ttftMs >= 0 && work >= 0 && o.streams >= 0 && Number.isFinite(o.ttftMs + work + o.streams))) return;
    const x = [1, work, o.streams];
    const residual = o.ttftMs - this.#predict(x);
    this.#observations++;
    const weight = this.#observations <= TRUSTING ? 1 : Math.min(1, (HUBER * this.#noiseMs) / Math.abs(residual));
    this.#step(x, o.ttftMs, weight);
    const rate = Math.max(0.05, 1 / (this.#observations + 1));
    this.#noiseMs += rate * (Math.abs(o.ttftMs - this.#predict(x)) - this.#noiseMs);
    this.#noiseMs = Math.max(0.1, this.#noiseMs);
    this.#rates = undefined;
  }

  rates(): Rates {
    this.#rates ??= {
      baseMs: this.#theta[0]!,
      perTokenMs: this.#theta[1]! / TOKEN_UNIT,
      perStreamMs: this.#theta[2]!,
      errorMs: this.#noiseMs * Math.sqrt(Math.max(0, dot(TYPICAL, this.#solve(TYPICAL)))),
      observations: this.#observations,
    };
    return this.#rates;
  }

  #predict(x: readonly number[]): number {
    return dot(this.#theta, x);
  }

  #step(x: readonly number[], ttftMs: number, weight: number): void {
    const beyondPrior = ttftMs - dot(PRIOR, x);
    const forget = Math.min(FORGET, Math.max(FORGET_EARLY, 1 - EARLY / this.#observations));
    for (let i = 0; i < 3; i++) {
      this.#moments[i] = this.#moments[i]! * forget + weight * x[i]! * beyondPrior;
      for (let j = 0; j < 3; j++) {
        this.#squares[i * 3 + j] = this.#squares[i * 3 + j]! * forget + weight * x[i]! * x[j]!;
      }
    }
    this.#theta = this.#atLeast();
  }

  /**
   * Costs are never negative, whatever a few odd figures say. One that would be is held at its least, and the others are found anew
   * with it: what it took away from them would else stay with them.
   */
  #atLeast(): readonly number[] {
    const held: (number | undefined)[] = [undefined, undefined, undefined];
    for (let round = 0; ; round++) {
      const theta = this.#solve(this.#moments, held).map((value, i) => value + PRIOR[i]!);
      const below = theta.findIndex((value, i) => held[i] === undefined && value < LEAST[i]!);
      if (below < 0 || round === 3) return theta.map((value, i) => Math.max(LEAST[i]!, value));
      held[below] = LEAST[below]! - PRIOR[below]!;
    }
  }

  /**
   * v of (squares + prior's weight) v = `right`, by Cholesky's way: the matrix is positive, whatever was observed.
   * @param held [3] members of v that are given
   */
  #solve(from: ArrayLike<number>, held: readonly (number | undefined)[] = FREE): number[] {
    const whole = (i: number, j: number): number => this.#squares[i * 3 + j]! + (i === j ? PRIOR_WEIGHT[i]! : 0);
    const isHeld = (i: number): boolean => held[i] !== undefined;
    const a = (i: number, j: number): number => (i !== j && (isHeld(i) || isHeld(j)) ? 0 : whole(i, j));
    const right = [0, 1, 2].map((i) =>
      isHeld(i) ? whole(i, i) * held[i]! : held.reduce<number>((sum, v, j) => sum - whole(i, j) * (v ?? 0), from[i]!),
    );
    const d0 = a(0, 0);
    const l10 = a(1, 0) / d0;
    const l20 = a(2, 0) / d0;
    const d1 = Math.max(PRIOR_WEIGHT[1]!, a(1, 1) - l10 * l10 * d0);
    const l21 = (a(2, 1) - l20 * l10 * d0) / d1;
    const d2 = Math.max(PRIOR_WEIGHT[2]!, a(2, 2) - l20 * l20 * d0 - l21 * l21 * d1);
    const y0 = right[0]!;
    const y1 = right[1]! - l10 * y0;
    const y2 = right[2]! - l20 * y0 - l21 * y1;
    const v2 = y2 / d2;
    const v1 = y1 / d1 - l21 * v2;
    return [y0 / d0 - l10 * v1 - l20 * v2, v1, v2];
  }
}

const dot = (a: readonly number[], b: readonly number[]): number => a[0]! * b[0]! + a[1]! * b[1]! + a[2]! * b[2]!;

/** English text under common vocabularies has about four bytes a token; chat markup has fewer. */
const PRIOR_BYTES_PER_TOKEN = 4;
/** The prior weighs as much as so many tokens. */
const PRIOR_TOKENS = 64;
/** Weight of the past at each observation. */
const RATIO_FORGET = 0.98;

/** Bytes a token of one model, learnt from `usage.prompt_tokens`. */
export class TokenRatio {
  #bytes = PRIOR_BYTES_PER_TOKEN * PRIOR_TOKENS;
  #tokens = PRIOR_TOKENS;

  observe(bytes: number, tokens: number): void {
    if (!(bytes > 0 && tokens > 0 && Number.isFinite(bytes + tokens))) return;
    this.#bytes = this.#bytes * RATIO_FORGET + bytes;
    this.#tokens = this.#tokens * RATIO_FORGET + tokens;
  }

  bytesPerToken(): number {
    return this.#bytes / this.#tokens;
  }

  /** Tokens in so many bytes, at least 1 when there are any. */
  tokens(bytes: number): number {
    return bytes <= 0 ? 0 : Math.max(1, Math.round(bytes / this.bytesPerToken()));
  }
}
