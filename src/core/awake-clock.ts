import type { Clock } from "./clock.ts";

/** Longest that is waited at once: what passes meanwhile is noticed after it. */
const STEP_MS = 500;
/** More than this between two looks did not pass for this process: it was stopped, starved or its host asleep. */
const COUNTED_MS = 2 * STEP_MS;

/**
 * A clock that goes only while this process runs. Who waits for a word of somebody else must not take its own pause for the other's
 * silence: when it goes on, its timers are due at once, and what came meanwhile has not been read yet.
 *
 * It goes as long as somebody waits by it.
 */
export function awakeClock(clock: Clock): Clock {
  let awake = 0;
  let seenAt = clock.now();
  const now = (): number => {
    const at = clock.now();
    awake += Math.min(Math.max(0, at - seenAt), COUNTED_MS);
    seenAt = at;
    return awake;
  };
  return {
    now,
    wall: () => clock.wall(),
    after(ms, fn) {
      const due = now() + ms;
      let cancel = (): void => {};
      const wait = (): void => {
        const left = due - awake;
        cancel = clock.after(Math.min(left, STEP_MS), () => (now() >= due ? fn() : wait()));
      };
      wait();
      return () => cancel();
    },
  };
}
