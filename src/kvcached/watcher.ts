import type { Clock } from "../core/clock.ts";
import type { LogCursor } from "./watch-log.ts";

/** A stream says something at least so often: one that is silent for longer is dead. */
const BEAT_MS = 1_000;
/** Sources' states are sent at most so often, and at least so often, for their counts. */
const SOURCES_MIN_MS = 100;
const SOURCES_MAX_MS = 5_000;

/** One who watches: where it stands, and what wakes it. */
export class Watcher {
  readonly name: string;
  readonly signal: AbortSignal;
  readonly cursor: LogCursor = { version: 0 };
  readonly sinceMs: number;
  state: "snapshot" | "live" = "snapshot";
  readonly #clock: Clock;
  #lastMs: number;
  #sourcesMs = Number.NEGATIVE_INFINITY;
  #sourcesVersion = 0;
  #woken = false;
  #wake = (): void => {};

  constructor(name: string, clock: Clock, signal: AbortSignal) {
    this.name = name;
    this.signal = signal;
    this.#clock = clock;
    this.sinceMs = clock.now();
    this.#lastMs = this.sinceMs - BEAT_MS;
    signal.addEventListener("abort", this.wake);
  }

  close(): void {
    this.signal.removeEventListener("abort", this.wake);
  }

  readonly wake = (): void => {
    this.#woken = true;
    this.#wake();
  };

  /** Time since something was sent to it. */
  get quietMs(): number {
    return this.#clock.now() - this.#lastMs;
  }

  /** Something is on its way to it. */
  sent(): void {
    this.#lastMs = this.#clock.now();
  }

  /** Must something be said only to show that the stream lives? It counts as said. */
  beatIsDue(): boolean {
    if (this.#clock.now() - this.#lastMs < BEAT_MS) return false;
    this.sent();
    return true;
  }

  /** Must the sources' states be sent? They count as sent. */
  sourcesAreDue(version: number): boolean {
    const ago = this.#clock.now() - this.#sourcesMs;
    if (ago < SOURCES_MIN_MS || (version === this.#sourcesVersion && ago < SOURCES_MAX_MS)) return false;
    this.#sourcesMs = this.#clock.now();
    this.#sourcesVersion = version;
    this.sent();
    return true;
  }

  /** Until it is woken, or it is time for a beat or for sources whose version is this one. */
  async wait(sourcesVersion: number): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        const now = this.#clock.now();
        const beat = BEAT_MS - (now - this.#lastMs);
        const sources = sourcesVersion === this.#sourcesVersion ? beat : SOURCES_MIN_MS - (now - this.#sourcesMs);
        const cancel = this.#clock.after(Math.max(1, Math.min(beat, sources)), resolve);
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
      this.#wake = () => {};
    }
    this.#woken = false;
  }
}
