import type { Clock } from "../core/clock.ts";

/** A timer that is so late was kept from firing: what came meanwhile is read before anybody is called late. */
const LATE_MS = 1_000;
const READING_MS = 1_000;

/**
 * Watches one answer: how long its first sign may take, and how long it may be silent after. Time in which the client takes
 * nothing does not count: then the engine is kept waiting.
 *
 * A sign costs a look at the clock; the timer itself is set anew only when it fires.
 */
export class AnswerTimer {
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #onLate: (message: string) => void;
  #limitMs: number;
  #heardMs: number;
  #streams = false;
  #paused = false;
  #dueMs = 0;
  #cancel: (() => void) | undefined;
  readonly #first: string;

  /**
   * @param first limit for the first sign, or for a whole answer, and its key in `[router]`; 0 ms: none
   * @param stallMs silence after the first sign; 0: none
   */
  constructor(
    clock: Clock,
    first: { readonly ms: number; readonly key: string },
    stallMs: number,
    onLate: (message: string) => void,
  ) {
    this.#clock = clock;
    this.#limitMs = first.ms;
    this.#stallMs = stallMs;
    this.#onLate = onLate;
    this.#heardMs = clock.now();
    this.#first = first.key;
    this.#arm(first.ms);
  }

  /** Something of the answer itself came. */
  heard(): void {
    this.#heardMs = this.#clock.now();
    if (this.#streams) return;
    this.#streams = true;
    this.#limitMs = this.#stallMs;
    this.#arm(this.#stallMs);
  }

  /** All of the answer is there: only the end of the engine's answer is waited for, so long. */
  ending(ms: number): void {
    this.#heardMs = this.#clock.now();
    this.#streams = true;
    this.#limitMs = ms;
    this.#arm(ms);
  }

  /** The client takes nothing now. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#heardMs = this.#clock.now();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(ms: number): void {
    this.stop();
    this.#dueMs = this.#clock.now() + ms;
    if (this.#limitMs > 0) this.#cancel = this.#clock.after(ms, () => this.#fired());
  }

  #fired(): void {
    const leftMs = this.#paused ? this.#limitMs : this.#heardMs + this.#limitMs - this.#clock.now();
    // Timers may fire a little early.
    if (leftMs > 1) {
      this.#arm(leftMs);
      return;
    }
    // This process was stopped or starved, and its timers come before what it has to read.
    if (this.#clock.now() - this.#dueMs > LATE_MS) {
      this.#arm(READING_MS);
      return;
    }
    const seconds = this.#limitMs / 1_000;
    const is = this.#streams ? "its stream stalled for" : "no answer within";
    this.#onLate(`${is} ${seconds} s (${this.#streams ? "stall_timeout" : this.#first})`);
  }
}
