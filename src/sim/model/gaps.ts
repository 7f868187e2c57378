/** Each bucket is so much wider than the one before it: the error of a percentile. */
const RATIO = 1.02;
const LEAST_MS = 0.001;

/** Times between tokens, counted in buckets of 2 %: their distribution without keeping each. */
export class Gaps {
  /** Index i counts gaps in (LEAST × RATIO^(i-1), LEAST × RATIO^i]; 0 those of no time. */
  readonly #counts: number[] = [];
  #count = 0;
  #sumMs = 0;
  #lastMs = Number.NaN;
  #lastIndex = 0;

  get count(): number {
    return this.#count;
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count;
  }

  /** @param weight how many gaps of this length */
  add(ms: number, weight = 1): void {
    if (ms !== this.#lastMs) {
      this.#lastMs = ms;
      this.#lastIndex = ms <= LEAST_MS ? 0 : Math.ceil(Math.log(ms / LEAST_MS) / Math.log(RATIO));
    }
    const index = this.#lastIndex;
    while (this.#counts.length <= index) this.#counts.push(0);
    this.#counts[index] = this.#counts[index]! + weight;
    this.#count += weight;
    this.#sumMs += ms * weight;
  }

  /** Add what another counted. */
  merge(other: Gaps): void {
    other.#counts.forEach((weight, index) => {
      while (this.#counts.length <= index) this.#counts.push(0);
      this.#counts[index] = this.#counts[index]! + weight;
    });
    this.#count += other.#count;
    this.#sumMs += other.#sumMs;
  }

  /** @param share 0.5 for the median. @returns 0 when there are none */
  percentileMs(share: number): number {
    let left = share * this.#count;
    for (const [index, weight] of this.#counts.entries()) {
      left -= weight;
      if (left <= 0 && weight > 0) return index === 0 ? 0 : LEAST_MS * RATIO ** (index - 0.5);
    }
    return 0;
  }
}
