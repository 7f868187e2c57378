/** Marks kept: at one each `STEP_MS` about five minutes. */
const MAX_MARKS = 32_768;
const STEP_MS = 10;

/**
 * Which value a second clock had when the first one stood somewhere, both only growing. Rough on the safe side: it answers
 * with a value that is not later.
 */
export class VersionMarks {
  readonly #keys = new Float64Array(MAX_MARKS);
  readonly #values = new Float64Array(MAX_MARKS);
  #count = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  note(key: number, value: number, nowMs: number): void {
    if (nowMs - this.#lastMs < STEP_MS) return;
    this.#lastMs = nowMs;
    const at = this.#count++ % MAX_MARKS;
    this.#keys[at] = key;
    this.#values[at] = value;
  }

  /** The value at the last mark whose key is not above this one; 0 when that is forgotten. */
  at(key: number): number {
    let low = Math.max(0, this.#count - MAX_MARKS);
    let high = this.#count;
    if (low === high || this.#keys[low % MAX_MARKS]! > key) return 0;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (this.#keys[middle % MAX_MARKS]! <= key) low = middle;
      else high = middle;
    }
    return this.#values[low % MAX_MARKS]!;
  }
}
