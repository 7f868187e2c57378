/** The prior weighs as much as so many requests that took what was predicted. */
const PRIOR_REQUESTS = 20;
/** Weight of the past at each observation: about the last 200 count. */
const FORGET = 0.995;
/** One request says at most that a worker is so many times slower or faster: a straggler is not a slow worker. */
const MOST = 4;

/**
 * How much longer one worker takes than its model's workers together. A single figure from sums of what was seen and what
 * was predicted: it settles within some ten requests, where three rates of its own would make equal engines look different for hundreds.
 */
export class SpeedFactor {
  #seen = 0;
  #predicted = 0;
  #weight = 0;

  observe(seenMs: number, predictedMs: number): void {
    if (!(seenMs >= 0 && predictedMs > 0 && Number.isFinite(seenMs + predictedMs))) return;
    this.#seen = this.#seen * FORGET + Math.min(Math.max(seenMs, predictedMs / MOST), predictedMs * MOST);
    this.#predicted = this.#predicted * FORGET + predictedMs;
    this.#weight = this.#weight * FORGET + 1;
  }

  /** 2: it takes twice as long. */
  factor(): number {
    if (this.#weight === 0) return 1;
    const prior = (this.#predicted / this.#weight) * PRIOR_REQUESTS;
    return (this.#seen + prior) / (this.#predicted + prior);
  }
}
