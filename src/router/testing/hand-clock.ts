import type { Clock } from "../../core/clock.ts";

/** Time that passes when the test says so. */
export function handClock(): Clock & { pass(ms: number): Promise<void> } {
  let now = 0;
  const timers = new Set<{ readonly at: number; readonly fn: () => void }>();
  return {
    now: () => now,
    wall: () => now,
    after(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    async pass(ms) {
      now += ms;
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        timers.delete(timer);
        timer.fn();
      }
      await Promise.resolve();
      await Promise.resolve();
    },
  };
}
