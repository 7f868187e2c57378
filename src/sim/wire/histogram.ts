/** Counts of observations under each bound, as Prometheus wants them. */
export class Histogram {
  /** Rising. */
  readonly bounds: readonly number[];
  readonly #counts: number[];
  #count = 0;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  get count(): number {
    return this.#count;
  }

  get sum(): number {
    return this.#sum;
  }

  observe(value: number): void {
    this.#count++;
    this.#sum += value;
    const at = this.bounds.findIndex((bound) => value <= bound);
    if (at >= 0) this.#counts[at]!++;
  }

  /** How many were at most each bound. */
  cumulative(): readonly number[] {
    let total = 0;
    return this.#counts.map((count) => (total += count));
  }
}
