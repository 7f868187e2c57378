import { formatDurationMs } from "../core/units.ts";

/** Ends further back than this tell nothing about now. */
const WINDOW_MS = 15 * 60_000;
/** So many ends within the window are a loop, also when a stable run was between them. */
const LOOP_ENDS = 3;
/** No more ends than this are remembered. */
const MAX_ENDS = 100;

/** The ends of one process that nobody asked for. Times are monotonic milliseconds. */
export class CrashCount {
  #ends: number[] = [];

  note(nowMs: number): void {
    this.#ends = [...this.#recent(nowMs), nowMs].slice(-MAX_ENDS);
  }

  /** It was asked to start anew: what was before is another matter. */
  clear(): void {
    this.#ends = [];
  }

  count(nowMs: number): number {
    return this.#recent(nowMs).length;
  }

  /** Does it end again and again? Runs that last over the stable time count too: their attempts are forgiven, their ends are not. */
  isLoop(nowMs: number): boolean {
    return this.count(nowMs) >= LOOP_ENDS;
  }

  /** For people: `ended 3 times within 40s`; empty for a first end. */
  text(nowMs: number): string {
    const [first, ...more] = this.#recent(nowMs);
    if (first === undefined || more.length === 0) return "";
    return `ended ${more.length + 1} times within ${formatDurationMs(Math.max(1_000, Math.ceil((nowMs - first) / 1_000) * 1_000))}`;
  }

  #recent(nowMs: number): number[] {
    return this.#ends.filter((end) => nowMs - end < WINDOW_MS);
  }
}
