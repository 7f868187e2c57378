import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDurationMs, parseDurationMs } from "./units.ts";

describe("parseDurationMs()", () => {
  it.each([
    ["800ms", 800],
    ["5s", 5_000],
    ["2m", 120_000],
    ["1h", 3_600_000],
    ["1d", 86_400_000],
    ["1.5m", 90_000],
    ["1h30m", 5_400_000],
    ["1m500ms", 60_500],
    ["0s", 0],
  ])("parseDurationMs() reads %j as %d", (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms);
  });

  it.each(["", "5", "-5s", "5 s", "s", "5w", "5S", "1..5s", "5s ", "1e3s", "Infinitys"])(
    "parseDurationMs() gives undefined for %j",
    (text) => {
      expect(parseDurationMs(text)).toBeUndefined();
    },
  );

  it("parseDurationMs() undoes formatDurationMs() for whole milliseconds", () => {
    fc.assert(fc.property(fc.nat(), (ms) => parseDurationMs(formatDurationMs(ms)) === ms));
  });
});

describe("formatDurationMs()", () => {
  it("formatDurationMs() takes the largest unit that divides", () => {
    expect([90_000, 120_000, 3_600_000, 1_500].map(formatDurationMs)).toEqual(["90s", "2m", "1h", "1500ms"]);
  });
});
