import { describe, expect, it } from "vitest";
import { CrashCount } from "./crash-count.ts";

const MINUTE = 60_000;

describe("CrashCount", () => {
  it("isLoop() after three ends within a quarter of an hour, and not after three in a day", () => {
    const crashes = new CrashCount();
    for (const [at, loop] of [
      [0, false],
      [7 * MINUTE, false],
      [14 * MINUTE, true],
    ] as const) {
      crashes.note(at);
      expect(crashes.isLoop(at)).toBe(loop);
    }
    expect(crashes.text(14 * MINUTE)).toBe("ended 3 times within 14m");
    expect(crashes.isLoop(16 * MINUTE)).toBe(false);
    crashes.note(60 * MINUTE);
    expect([crashes.count(60 * MINUTE), crashes.text(60 * MINUTE)]).toEqual([1, ""]);
  });

  it("clear() forgets", () => {
    const crashes = new CrashCount();
    for (let at = 0; at < 1_000; at++) crashes.note(at);
    expect(crashes.count(1_000)).toBe(100);
    crashes.clear();
    expect(crashes.isLoop(1_000)).toBe(false);
  });
});
