import type { Rates } from "./decision.ts";

/** One request whose first token was seen. */
export interface TtftObservation {
  /** Prompt tokens that were computed for it (after the fact where the engine said so). */
  readonly uncachedTokens: number;
  /** Tokens that waited before it when it was sent. */
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
/** Residuals above this many mean deviations pull only linearly (Huber). */
const HUBER = 2;
/** So many observations are taken at full weight: a prior that is far off must not make the truth an outlier. */
const TRUSTING = 5;
/** Token work is counted in thousands so that the three unknowns have like sizes. */
const TOKEN_UNIT = 1000;

/**
 * Rates of one worker: recursive least squares of TTFT over (1, thousands of tokens to compute before the first token,
 * running decodes), with forgetting, a prior, and Huber weights against stragglers. Constant memory, about 100 flops an
 * observation.
 */
export class Calibration {
  readonly #theta: [number, number, number] = [...PRIOR];
  /** Covariance over the noise's variance, row by row [3 × 3]. */
  readonly #p: number[];
  #noiseMs = NOISE_MS;
  #observations = 0;
  #rates: Rates | undefined;

  constructor() {
    this.#p = [0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (let i = 0; i < 3; i++) this.#p[i * 4] = (PRIOR_SPREAD[i]! / NOISE_MS) ** 2;
  }

  /** Learn from one request. Figures that are not finite or negative are ignored. */
  observe(o: TtftObservation): void {
    const work = (o.uncachedTokens + o.queuedTokens) / TOKEN_UNIT;
    if (!(o.ttftMs >= 0 && work >= 0 && o.streams >= 0 && Number.isFinite(o.ttftMs + work + o.streams))) return;
    const x = [1, work, o.streams];
    const residual = o.ttftMs - this.#predict(x);
    this.#observations++;
    const weight = this.#observations <= TRUSTING ? 1 : Math.min(1, (HUBER * this.#noiseMs) / Math.abs(residual));
    this.#step(x, residual, weight);
    const rate = Math.max(0.05, 1 / (this.#observations + 1));
    this.#noiseMs += rate * (Math.abs(o.ttftMs - this.#predict(x)) - this.#noiseMs);
    this.#noiseMs = Math.max(0.1, this.#noiseMs);
    this.#rates = undefined;
  }

  rates(): Rates {
    this.#rates ??= {
      baseMs: this.#theta[0],
      perTokenMs: this.#theta[1] / TOKEN_UNIT,
      perStreamMs: this.#theta[2],
      errorMs: this.#noiseMs * Math.sqrt(Math.max(0, this.#quadratic([1, 1, 0]))),
      observations: this.#observations,
    };
    return this.#rates;
  }

  #predict(x: readonly number[]): number {
    return this.#theta[0] * x[0]! + this.#theta[1] * x[1]! + this.#theta[2] * x[2]!;
  }

  #quadratic(x: readonly number[]): number {
    let sum = 0;
    for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) sum += x[i]! * this.#p[i * 3 + j]! * x[j]!;
    return sum;
  }

  #step(x: readonly number[], residual: number, weight: number): void {
    const p = this.#p;
    const px = [0, 0, 0];
    for (let i = 0; i < 3; i++) px[i] = p[i * 3]! * x[0]! + p[i * 3 + 1]! * x[1]! + p[i * 3 + 2]! * x[2]!;
    const scale = weight / (FORGET + weight * (x[0]! * px[0]! + x[1]! * px[1]! + x[2]! * px[2]!));
    for (let i = 0; i < 3; i++) this.#theta[i] = this.#theta[i]! + scale * px[i]! * residual;
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 3; j++) p[i * 3 + j] = p[i * 3 + j]! - scale * px[i]! * px[j]!;
    }
    // Forgetting grows what requests do not excite (all prompts alike); never beyond the prior.
    const known = PRIOR_SPREAD.every((spread, i) => p[i * 4]! / FORGET <= (spread / NOISE_MS) ** 2);
    if (known) for (let k = 0; k < 9; k++) p[k] = p[k]! / FORGET;
    this.#clamp();
  }

  /** Costs are never negative, whatever a few odd figures say. */
  #clamp(): void {
    this.#theta[0] = Math.max(0.1, this.#theta[0]);
    this.#theta[1] = Math.max(0.1, this.#theta[1]);
    this.#theta[2] = Math.max(0, this.#theta[2]);
  }
}

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

/** So many observations of its own weigh as much as what all workers of the model have shown together. */
const BLEND_OBSERVATIONS = 10;

/**
 * A worker's own rates, drawn to those of its model's workers together while it has few observations. Two first requests,
 * one of them slow for reasons of its own, must not make two equal engines look different.
 */
export function blendRates(own: Rates, together: Rates): Rates {
  const share = own.observations / (own.observations + BLEND_OBSERVATIONS);
  const mix = (a: number, b: number): number => a * share + b * (1 - share);
  return {
    baseMs: mix(own.baseMs, together.baseMs),
    perTokenMs: mix(own.perTokenMs, together.perTokenMs),
    perStreamMs: mix(own.perStreamMs, together.perStreamMs),
    errorMs: mix(own.errorMs, together.errorMs),
    observations: own.observations,
  };
}
