import { describe, expect, it } from "vitest";
import { ago, bytes, count, duration, percent, plural, rate } from "./format.ts";
import { lonely } from "./plot.ts";

describe("figures for people", () => {
  it.each([
    [duration(0), "0"],
    [duration(0.02), "<0.1 ms"],
    [duration(3.21), "3.2 ms"],
    [duration(999.4), "999 ms"],
    [duration(9_400), "9.4 s"],
    [duration(90_000), "90 s"],
    [duration(600_000), "10 min"],
    [duration(86_400_000), "24.0 h"],
    [duration(undefined), "–"],
    [percent(0.004), "0.4 %"],
    [percent(0.5), "50 %"],
    [percent(0), "0 %"],
    [percent(null), "–"],
    [count(9_999), "9999"],
    [count(12_345), "12.3 k"],
    [count(1_234_567), "1.2 M"],
    [rate(0.25), "0.25"],
    [rate(3), "3.0"],
    [rate(25), "25"],
    [bytes(2_048), "2.0 KiB"],
    [ago(0, 1_000), "now"],
    [ago(0, 61_000), "61 s ago"],
    [plural(1, "request"), "1 request"],
  ])("%s", (said, expected) => expect(said).toBe(expected));
});

describe("lonely()", () => {
  it("has the points that no line would show", () => {
    expect(
      lonely(
        {
          data: [
            [0, 1, 2, 3, 4, 5],
            [1, null, 2, 3, null, 4],
          ],
        },
        1,
      ),
    ).toEqual([0, 5]);
  });
});
