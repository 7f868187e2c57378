import type { Clock } from "../core/clock.ts";

/** The real clock: monotonic for intervals, epoch for logs. */
export function systemClock(): Clock {
  return {
    now: () => performance.now(),
    wall: () => Date.now(),
    after(ms, fn) {
      const timer = setTimeout(fn, ms);
      return () => clearTimeout(timer);
    },
  };
}
