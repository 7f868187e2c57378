import type { Job } from "./job.ts";
import type { ReplayAdmission } from "./replay-options.ts";

/**
 * One router's door, as `[router.admission]` sets it: requests are let in while the engines have places, first come first served;
 * the rest wait in a bounded queue for a bounded time.
 */
export class AdmissionLane {
  readonly #limits: ReplayAdmission;
  #queue: Job[] = [];
  #running = 0;

  constructor(limits: ReplayAdmission) {
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** When the first in the queue gives up. */
  get nextAt(): number {
    const first = this.#queue[0];
    const timeout = this.#limits.queueTimeoutMs;
    return first === undefined || timeout === undefined ? Number.POSITIVE_INFINITY : first.arrivedAt + timeout;
  }

  /** `in`: it runs now. `waits`: `next()` gives it later. `full`: refused. */
  enter(job: Job, readyEngines: number): "in" | "waits" | "full" {
    if (this.#queue.length === 0 && this.#hasPlace(readyEngines)) {
      this.#running++;
      return "in";
    }
    if (this.#queue.length >= (this.#limits.maxQueue ?? Number.POSITIVE_INFINITY)) return "full";
    this.#queue.push(job);
    return "waits";
  }

  leave(): void {
    this.#running--;
  }

  /** The first in the queue, when there is a place for it. */
  next(readyEngines: number): Job | undefined {
    if (this.#queue.length === 0 || !this.#hasPlace(readyEngines)) return undefined;
    this.#running++;
    return this.#queue.shift();
  }

  /** Those that waited too long by `now`. */
  overdue(now: number): readonly Job[] {
    const out: Job[] = [];
    while (this.nextAt <= now) out.push(this.#queue.shift()!);
    return out;
  }

  #hasPlace(readyEngines: number): boolean {
    return (
      this.#running < (this.#limits.maxConcurrentPerEngine ?? Number.POSITIVE_INFINITY) * Math.max(1, readyEngines)
    );
  }
}
