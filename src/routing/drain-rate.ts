/** So many ends are looked at. */
const KEPT = 32;

/** How often a place becomes free, from when the last ones did. */
export class DrainRate {
  readonly #ends: number[] = [];

  /** A place became free. */
  ended(nowMs: number): void {
    this.#ends.push(nowMs);
    if (this.#ends.length > KEPT) this.#ends.shift();
  }

  /**
   * How long it takes until so many places became free, in milliseconds. Undefined while fewer than two became so: then nothing
   * can be said.
   */
  waitMs(places: number, nowMs: number): number | undefined {
    const [first] = this.#ends;
    if (first === undefined || this.#ends.length < 2) return undefined;
    // Up to now, so that a stall counts: what ended long ago says little of what ends next.
    return (places * (nowMs - first)) / (this.#ends.length - 1);
  }
}
