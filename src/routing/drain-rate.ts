/** So many ends are looked at. */
const KEPT = 32;

/** How often a place becomes free while somebody waits for one. What ended when nobody waited says nothing of what is possible. */
export class DrainRate {
  /** When the wait began, or an end in it, then each end since. */
  #ends: number[] = [];
  /** Of the last wait, milliseconds a place. */
  #lastMs: number | undefined;

  /** Somebody waits, and nobody did before. */
  began(nowMs: number): void {
    this.#lastMs = this.#eachMs(this.#ends.at(-1) ?? nowMs) ?? this.#lastMs;
    this.#ends = [nowMs];
  }

  /** A place became free for somebody who waits. */
  ended(nowMs: number): void {
    this.#ends.push(nowMs);
    if (this.#ends.length > KEPT) this.#ends.shift();
  }

  /** How long it takes until so many places became free, in milliseconds. Undefined while nothing can be said. */
  waitMs(places: number, nowMs: number): number | undefined {
    // Up to now, so that a stall counts.
    const eachMs = this.#eachMs(nowMs) ?? this.#lastMs;
    return eachMs === undefined ? undefined : places * eachMs;
  }

  #eachMs(nowMs: number): number | undefined {
    const ends = this.#ends.length - 1;
    return ends < 1 ? undefined : (nowMs - this.#ends[0]!) / ends;
  }
}
