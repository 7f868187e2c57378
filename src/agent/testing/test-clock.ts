import type { Clock } from "../../core/clock.ts";

/** A clock that the test moves. */
export class TestClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly run: () => void }>();

  now(): number {
    return this.#now;
  }

  wall(): number {
    return 1_700_000_000_000 + this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#now + ms, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Move on, and run what is due on the way in its order. */
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter(({ atMs }) => atMs <= until).sort((a, b) => a.atMs - b.atMs)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.atMs);
      due.run();
    }
    this.#now = until;
  }
}
