import type { Clock } from "../../core/clock.ts";

/** A clock that stands until it is moved; timers fire in order as it passes them. */
export interface HandClock extends Clock {
  advance(ms: number): void;
}

export function handClock(startMs = 1_800_000_000_000): HandClock {
  let nowMs = 0;
  let timers: { atMs: number; fn: () => void }[] = [];
  return {
    now: () => nowMs,
    wall: () => startMs + nowMs,
    after(ms, fn) {
      const timer = { atMs: nowMs + ms, fn };
      timers.push(timer);
      return () => {
        timers = timers.filter((t) => t !== timer);
      };
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (;;) {
        const next = timers.filter((t) => t.atMs <= endMs).sort((a, b) => a.atMs - b.atMs)[0];
        if (next === undefined) break;
        timers = timers.filter((t) => t !== next);
        nowMs = Math.max(nowMs, next.atMs);
        next.fn();
      }
      nowMs = endMs;
    },
  };
}
