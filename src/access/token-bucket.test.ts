import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Bucket, type BucketAsk, refilled, takeAll, waitFor } from "./token-bucket.ts";

const ask = (over: Partial<BucketAsk> = {}): BucketAsk => ({
  key: "a",
  capacity: 10,
  perSecond: 2,
  cost: 1,
  needs: 1,
  ...over,
});

function buckets() {
  const map = new Map<string, Bucket>();
  const take = (asks: readonly BucketAsk[], nowMs: number, force = false) =>
    takeAll(
      asks,
      (key) => map.get(key),
      (key, bucket) => void map.set(key, bucket),
      nowMs,
      force,
    );
  return { map, take };
}

describe("takeAll()", () => {
  it("lets a burst through, then the rate", () => {
    const { take } = buckets();
    const burst = Array.from({ length: 12 }, () => take([ask()], 0).taken);
    expect(burst.filter(Boolean)).toHaveLength(10);
    expect(take([ask()], 499).taken).toBe(false);
    expect(take([ask()], 500).taken).toBe(true);
    expect(take([ask()], 500).levels[0]).toEqual({ remaining: 0, waitMs: 500 });
  });

  it("takes from no bucket where one refuses", () => {
    const { take, map } = buckets();
    take([ask({ key: "b", cost: 10, needs: 10 })], 0);
    expect(take([ask(), ask({ key: "b" })], 0).taken).toBe(false);
    expect(map.has("a")).toBe(false);
  });

  it("goes below 0 by force, and waits until that has flowed back", () => {
    const { take } = buckets();
    take([ask({ cost: 30 })], 0, true);
    expect(take([ask()], 0).levels[0]).toEqual({ remaining: -20, waitMs: 10_500 });
    expect(take([ask()], 10_500).taken).toBe(true);
    expect(take([ask({ cost: -100 })], 10_500, true).levels[0]?.remaining).toBe(10);
  });

  it("never lets more through than capacity and rate allow, in any order of times", () => {
    const steps = fc.array(fc.record({ gapMs: fc.nat(3_000), cost: fc.integer({ min: 1, max: 5 }) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(steps, (all) => {
        const { take } = buckets();
        let nowMs = 0;
        let taken = 0;
        for (const { gapMs, cost } of all) {
          nowMs += gapMs;
          if (take([ask({ cost, needs: cost })], nowMs).taken) taken += cost;
          expect(taken).toBeLessThanOrEqual(10 + (nowMs * 2) / 1000 + 1e-6);
        }
      }),
    );
  });

  it("waitFor() is exactly when it is enough", () => {
    const levels = fc.double({ min: -1e6, max: 10, noNaN: true });
    fc.assert(
      fc.property(levels, fc.integer({ min: 1, max: 10 }), (tokens, needs) => {
        const a = ask({ needs });
        const wait = waitFor(a, tokens);
        expect(refilled({ tokens, atMs: 0 }, a, wait)).toBeGreaterThanOrEqual(needs - 1e-6);
        if (wait > 1) expect(refilled({ tokens, atMs: 0 }, a, wait - 1)).toBeLessThan(needs + 1e-6);
      }),
    );
  });
});
