import { formatDurationMs } from "../core/units.ts";

/** What an engine's metrics tell of its work. */
export interface WorkFigures {
  readonly running?: number;
  /** Changes whenever it computes something; absent where its metrics do not tell. */
  readonly progress?: number;
}

/** How often the metrics are read at most, and how often within the time after which a stall is one. */
const EVERY_MS = 30_000;
const LOOKS_WITHIN = 4;

/**
 * Finds an engine that is alive and computes nothing: it has requests, and none of its counters has moved for too long. Health
 * endpoints do not tell (vLLM's and llama-server's answer from another thread or process). Metrics that are not answered either,
 * where they were before, are the same (llama-server answers them from the loop that computes). Times are monotonic milliseconds.
 */
export class StallWatch {
  readonly #timeoutMs: number;
  #lastLookMs: number | undefined;
  /** When something was seen to move last, or nothing had to. */
  #movedMs = 0;
  #progress: number | undefined;
  #answered = false;
  #stalled = false;

  /** @param timeoutMs 0: never */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** A new process. */
  reset(): void {
    this.#lastLookMs = this.#progress = undefined;
    this.#answered = this.#stalled = false;
  }

  /** Should the metrics be read now? In a stall at each look, so that its end is seen. */
  isDue(nowMs: number): boolean {
    if (this.#timeoutMs === 0) return false;
    const every = this.#stalled ? 0 : Math.min(EVERY_MS, this.#timeoutMs / LOOKS_WITHIN);
    return this.#lastLookMs === undefined || nowMs - this.#lastLookMs >= every;
  }

  /**
   * Take in what the metrics say; undefined: they were not answered in time.
   * @returns what is wrong, for people; undefined while nothing is
   */
  look(figures: WorkFigures | undefined, nowMs: number): string | undefined {
    const first = this.#lastLookMs === undefined;
    this.#lastLookMs = nowMs;
    const { running = 0, progress } = figures ?? {};
    const idle = figures !== undefined && (running === 0 || progress === undefined);
    const moved = figures !== undefined && progress !== this.#progress;
    if (figures !== undefined) {
      this.#answered = true;
      this.#progress = progress;
    }
    if (first || idle || moved || !this.#answered) this.#movedMs = nowMs;
    const forMs = nowMs - this.#movedMs;
    this.#stalled = forMs >= this.#timeoutMs;
    if (!this.#stalled) return undefined;
    const time = formatDurationMs(Math.round(forMs / 1_000) * 1_000);
    if (figures === undefined) return `stalled: its metrics have not been answered for ${time}`;
    return `stalled: ${running} request${running === 1 ? "" : "s"} on it and nothing computed for ${time}`;
  }
}
