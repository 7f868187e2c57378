/** Something that runs on a worker and must end when the worker is lost. */
export interface Leg {
  lost(reason: string): void;
  /** Where its list keeps it; written by the list alone. */
  place?: number | undefined;
}

/**
 * What runs on a worker, in no order.
 *
 * Not a `Set`: V8 gives one a new table after every few dozen additions, and the old tables, linked to each other, drag what they held
 * through collections of young garbage. Half of all requests, with everything that belongs to them, then lived until a full collection.
 */
export class LegList implements Iterable<Leg> {
  readonly #legs: Leg[] = [];

  get size(): number {
    return this.#legs.length;
  }

  /** A leg is in one list at most. */
  add(leg: Leg): void {
    leg.place = this.#legs.push(leg) - 1;
  }

  /** Harmless for one that is not there. */
  delete(leg: Leg): void {
    const { place } = leg;
    if (place === undefined || this.#legs[place] !== leg) return;
    const last = this.#legs.pop()!;
    if (last !== leg) {
      this.#legs[place] = last;
      last.place = place;
    }
    leg.place = undefined;
  }

  [Symbol.iterator](): Iterator<Leg> {
    return this.#legs[Symbol.iterator]();
  }
}
