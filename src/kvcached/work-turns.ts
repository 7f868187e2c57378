import type { Clock } from "../core/clock.ts";

/** Work done in one turn of the event loop by all that share it: requests wait for it. */
const SLICE_MS = 5;

/**
 * The time of the event loop that background work of a process may take, shared by all of it: sixteen sources with a slice of 5 ms
 * each would hold the loop for 80 ms.
 */
export class WorkTurns {
  readonly #clock: Pick<Clock, "now">;
  readonly #waiting: (() => void)[] = [];
  #until = 0;
  /** Somebody has worked in this turn of the event loop. */
  #begun = false;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Is there time left in this turn of the event loop? */
  hasTime(): boolean {
    if (!this.#begun) this.#begin();
    return this.#clock.now() < this.#until;
  }

  /** Wait for a later turn of the event loop. Those that wait come one after another, one a turn. */
  next(): Promise<void> {
    if (!this.#begun) this.#begin();
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  #begin(): void {
    this.#begun = true;
    this.#until = this.#clock.now() + SLICE_MS;
    setImmediate(() => {
      this.#begun = false;
      const first = this.#waiting.shift();
      if (first === undefined) return;
      this.#begin();
      first();
    });
  }
}
