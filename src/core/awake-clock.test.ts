import { describe, expect, it } from "vitest";
import { awakeClock } from "./awake-clock.ts";
import type { Clock } from "./clock.ts";

/** A clock that goes when the test says so; a pause makes every timer late. */
function handClock() {
  let now = 1_000;
  const timers = new Set<{ readonly at: number; readonly fn: () => void }>();
  const clock: Clock = {
    now: () => now,
    wall: () => 7,
    after(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  const pause = (ms: number): void => {
    now += ms;
    for (const timer of [...timers].filter(({ at }) => at <= now)) if (timers.delete(timer)) timer.fn();
  };
  const run = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 100) pause(100);
  };
  return { clock, pause, run, waiting: () => timers.size };
}

describe("awakeClock()", () => {
  it("goes as the clock does while the process runs", () => {
    const { clock, run } = handClock();
    const awake = awakeClock(clock);
    let fired = 0;
    awake.after(3_000, () => fired++);
    awake.after(0, () => fired++);
    run(100);
    expect(fired).toBe(1);
    run(2_800);
    expect(fired).toBe(1);
    run(100);
    expect(fired).toBe(2);
    expect(awake.now()).toBe(3_000);
    expect(awake.wall()).toBe(7);
  });

  it("does not count a pause, so that nobody's word is missed for it", () => {
    const { clock, pause, run } = handClock();
    const awake = awakeClock(clock);
    let fired = 0;
    awake.after(3_000, () => fired++);
    run(1_000);
    pause(60_000);
    expect(fired).toBe(0);
    expect(awake.now()).toBe(2_000);
    run(900);
    expect(fired).toBe(0);
    run(200);
    expect(fired).toBe(1);
  });

  it("leaves no timer behind that was cancelled", () => {
    const { clock, run, waiting } = handClock();
    const cancel = awakeClock(clock).after(3_000, () => {
      throw new Error("fired");
    });
    run(1_000);
    cancel();
    expect(waiting()).toBe(0);
    run(5_000);
  });
});
