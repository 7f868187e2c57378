import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import { Learning } from "./learning.ts";

const A = workerId("a");
const B = workerId("b");
const M = "m";

/** Requests of many lengths, each worker with its own milliseconds a token. */
function teach(learning: Learning, n: number, perTokenMs: Readonly<Record<string, number>>): void {
  for (let i = 0; i < n; i++) {
    for (const [worker, ms] of Object.entries(perTokenMs)) {
      const uncachedTokens = (i * 37) % 2000;
      const queuedTokens = i % 3 === 0 ? (i * 91) % 1000 : 0;
      const ttftMs = 20 * (ms / 0.2) + ms * (uncachedTokens + queuedTokens);
      learning.observe(workerId(worker), M, { uncachedTokens, queuedTokens, streams: 0, ttftMs });
    }
  }
}

describe("Learning", () => {
  it("rates() tells a worker of half the speed apart, and does not make the others look slow", () => {
    const learning = new Learning();
    teach(learning, 200, { a: 0.2, b: 0.4 });
    const [a, b] = [learning.rates(A, M), learning.rates(B, M)];
    expect(b.perTokenMs / a.perTokenMs).toBeGreaterThan(1.7);
    expect(a.perTokenMs).toBeGreaterThan(0.17);
    expect(a.perTokenMs).toBeLessThan(0.24);
  });

  it("rates() keeps equal workers alike from the first requests on", () => {
    const learning = new Learning();
    // One of them had a bad start, for reasons of its own.
    learning.observe(A, M, { uncachedTokens: 100, queuedTokens: 0, streams: 0, ttftMs: 2000 });
    teach(learning, 3, { a: 0.2, b: 0.2 });
    const ratio = learning.rates(A, M).perTokenMs / learning.rates(B, M).perTokenMs;
    expect(ratio).toBeLessThan(1.25);
  });

  it("rates() of a worker that nothing is known of are its model's", () => {
    const learning = new Learning();
    teach(learning, 50, { a: 0.2 });
    expect(learning.rates(workerId("new"), M)).toEqual(learning.rates(workerId("other"), M));
    learning.forget(A);
    expect(learning.rates(A, M)).toEqual(learning.rates(workerId("new"), M));
  });

  it("rates() learns what fetching takes, by worker and tier, and leaves computing as it was", () => {
    const learning = new Learning();
    teach(learning, 100, { a: 0.2, b: 0.2 });
    const before = learning.rates(A, M).perTokenMs;
    for (let i = 0; i < 100; i++) {
      const fetched = { uncachedTokens: 200, queuedTokens: 0, streams: 0, cachedTokens: 2000, tier: "host" as const };
      learning.observe(A, M, { ...fetched, ttftMs: 20 + 0.2 * 200 + 0.01 * 2000 });
    }
    const { fetchMs, perTokenMs } = learning.rates(A, M);
    expect(fetchMs?.host).toBeGreaterThan(0.005);
    expect(fetchMs?.host).toBeLessThan(0.03);
    // Nothing was fetched from there: the prior, a quarter saved.
    expect(fetchMs?.disk).toBeCloseTo(0.75 * perTokenMs, 6);
    expect(learning.rates(B, M).fetchMs).toBeUndefined();
    expect(Math.abs(perTokenMs / before - 1)).toBeLessThan(0.1);
  });

  it("rates() stay finite and not negative whatever is observed", () => {
    const any = fc.double();
    const tier = fc.constantFrom<Tier>("device", "host", "disk", "shared");
    const row = fc.record({
      uncachedTokens: any,
      queuedTokens: any,
      streams: any,
      ttftMs: any,
      cachedTokens: any,
      tier,
    });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 60 }), (rows) => {
        const learning = new Learning();
        const bounded = (value: number) => Math.min(value, 1e7);
        for (const { tier: from, ...figures } of rows) {
          const { uncachedTokens, queuedTokens, streams, ttftMs, cachedTokens } = figures;
          learning.observe(A, M, {
            uncachedTokens: bounded(uncachedTokens),
            queuedTokens: bounded(queuedTokens),
            streams: bounded(streams),
            ttftMs: bounded(ttftMs),
            cachedTokens: bounded(cachedTokens),
            tier: from,
          });
        }
        const { fetchMs = {}, ...rates } = learning.rates(A, M);
        for (const figure of [...Object.values(rates), ...Object.values(fetchMs)]) {
          expect(Number.isFinite(figure)).toBe(true);
          expect(figure).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });
});
