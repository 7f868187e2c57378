const MOST_BINS = 720;

/** Sums over time in bins of equal width, which doubles when the time grows beyond what the bins hold. */
export class TimeSeries {
  readonly #columns: number;
  #widthMs = 1000;
  #sums: Float64Array[];
  #bins = 0;

  /** @param columns sums kept for each bin */
  constructor(columns: number) {
    this.#columns = columns;
    this.#sums = Array.from({ length: columns }, () => new Float64Array(MOST_BINS));
  }

  get widthMs(): number {
    return this.#widthMs;
  }

  add(at: number, column: number, value: number): void {
    while (at >= this.#widthMs * MOST_BINS) this.#halve();
    const bin = Math.max(0, Math.floor(at / this.#widthMs));
    this.#sums[column]![bin]! += value;
    if (bin >= this.#bins) this.#bins = bin + 1;
  }

  /** Sums of one column, [bins]. */
  column(index: number): Float64Array {
    return this.#sums[index]!.subarray(0, this.#bins);
  }

  #halve(): void {
    this.#widthMs *= 2;
    this.#bins = Math.ceil(this.#bins / 2);
    for (let c = 0; c < this.#columns; c++) {
      const sums = this.#sums[c]!;
      for (let i = 0; i < MOST_BINS / 2; i++) sums[i] = sums[2 * i]! + sums[2 * i + 1]!;
      sums.fill(0, MOST_BINS / 2);
    }
  }
}
