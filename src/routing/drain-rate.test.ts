import { describe, expect, it } from "vitest";
import { DrainRate } from "./drain-rate.ts";

describe("DrainRate", () => {
  it("waitMs() is by the ends since somebody waits, whatever was before", () => {
    const rate = new DrainRate();
    expect(rate.waitMs(1, 0)).toBeUndefined();
    rate.began(60_000);
    expect(rate.waitMs(1, 60_100)).toBeUndefined();
    for (const at of [60_200, 60_400, 60_600]) rate.ended(at);
    expect(rate.waitMs(5, 60_600)).toBe(1000);
  });

  it("waitMs() grows while nothing ends, and starts with what the last wait taught", () => {
    const rate = new DrainRate();
    rate.began(0);
    rate.ended(100);
    rate.ended(200);
    expect(rate.waitMs(1, 1000)).toBe(500);
    rate.began(90_000);
    expect(rate.waitMs(3, 90_000)).toBe(300);
    rate.ended(90_050);
    expect(rate.waitMs(3, 90_050)).toBe(150);
  });

  it("waitMs() looks at the last ends only", () => {
    const rate = new DrainRate();
    rate.began(0);
    for (let i = 1; i <= 100; i++) rate.ended(i * 10);
    for (let i = 1; i <= 100; i++) rate.ended(1000 + i * 50);
    expect(rate.waitMs(1, 6000)).toBeCloseTo(50, 6);
  });
});
