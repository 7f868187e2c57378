import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Calibration, TokenRatio } from "./calibration.ts";

/** Small deterministic noise in [-1, 1]. */
function noise(i: number): number {
  return (((i * 2654435761) % 1000) / 1000) * 2 - 1;
}

function learn(n: number, ttft: (work: number, streams: number, i: number) => number): Calibration {
  const c = new Calibration();
  for (let i = 0; i < n; i++) {
    const uncachedTokens = (i * 37) % 2000;
    const queuedTokens = i % 3 === 0 ? (i * 91) % 1000 : 0;
    const streams = i % 5;
    c.observe({ uncachedTokens, queuedTokens, streams, ttftMs: ttft(uncachedTokens + queuedTokens, streams, i) });
  }
  return c;
}

describe("Calibration", () => {
  it("rates() finds a slow engine's rates within 5 % after 50 requests", () => {
    const r = learn(50, (work, streams, i) => 30 + 2.1 * work + 4 * streams + 10 * noise(i)).rates();
    expect(r.perTokenMs).toBeGreaterThan(2);
    expect(r.perTokenMs).toBeLessThan(2.2);
    expect(r.observations).toBe(50);
  });

  it("rates() stays sane over tens of thousands of requests, in overload too", () => {
    const c = new Calibration();
    for (let i = 0; i < 40_000; i++) {
      // Quiet and overloaded by turns: then waits have causes that the model does not know.
      const busy = i % 4000 > 2500;
      const uncachedTokens = 500 + ((i * 7919) % 30_000);
      const queuedTokens = busy ? (i * 104_729) % 400_000 : 0;
      const streams = busy ? (i * 31) % 60 : i % 3;
      const ttftMs = 10 + 0.1 * (uncachedTokens + queuedTokens) + streams + (busy ? (i * 65_537) % 60_000 : 0);
      c.observe({ uncachedTokens, queuedTokens, streams, ttftMs });
      const { baseMs, perTokenMs, perStreamMs, errorMs } = c.rates();
      if (!(baseMs < 60_000 && perTokenMs < 1 && perStreamMs < 2000 && errorMs < 1e6)) {
        expect.fail(`after ${i + 1} requests: ${JSON.stringify(c.rates())}`);
      }
    }
    expect(c.rates().perTokenMs).toBeGreaterThan(0.03);
  });

  it("rates() finds a fast engine's rates", () => {
    const r = learn(100, (work, streams, i) => 15 + 0.08 * work + 0.5 * streams + noise(i)).rates();
    expect(r.perTokenMs).toBeGreaterThan(0.07);
    expect(r.perTokenMs).toBeLessThan(0.09);
  });

  it("rates() hardly moves for one straggler in twenty", () => {
    const r = learn(200, (work, streams, i) => 15 + 0.5 * work + streams + (i % 20 === 19 ? 30_000 : 0)).rates();
    expect(r.perTokenMs).toBeGreaterThan(0.4);
    expect(r.perTokenMs).toBeLessThan(0.9);
  });

  it("rates() follows an engine that got slower", () => {
    const c = learn(200, (work) => 15 + 0.2 * work);
    for (let i = 0; i < 400; i++) {
      const uncachedTokens = (i * 37) % 2000;
      c.observe({ uncachedTokens, queuedTokens: 0, streams: 0, ttftMs: 15 + 0.6 * uncachedTokens });
    }
    expect(c.rates().perTokenMs).toBeGreaterThan(0.5);
  });

  it("rates() is not misled for long by a first request that waited for what the engine compiles", () => {
    for (const firstMs of [400, 1_500, 3_000]) {
      const c = new Calibration();
      c.observe({ uncachedTokens: 6, queuedTokens: 0, streams: 0, ttftMs: firstMs });
      for (let i = 0; i < 30; i++) {
        const uncachedTokens = 16 * ((i * 37) % 200);
        c.observe({
          uncachedTokens,
          queuedTokens: 0,
          streams: i % 3,
          ttftMs: 15 + 0.125 * uncachedTokens + 2 * (i % 3),
        });
      }
      expect(c.rates().perTokenMs).toBeGreaterThan(0.1);
      expect(c.rates().baseMs).toBeLessThan(80);
    }
  });

  it("rates() finds the others anew where one would be negative", () => {
    const c = new Calibration();
    // The fewer tokens the longer it took: no cost a token can say that.
    for (let i = 0; i < 40; i++) {
      const uncachedTokens = i % 2 === 0 ? 100 : 2_000;
      c.observe({ uncachedTokens, queuedTokens: 0, streams: 0, ttftMs: i % 2 === 0 ? 200 : 100 });
    }
    const { baseMs, perTokenMs } = c.rates();
    expect(perTokenMs).toBeLessThan(0.01);
    // What it took on average, and not the line's end at no tokens.
    expect(baseMs).toBeGreaterThan(130);
    expect(baseMs).toBeLessThan(170);
  });

  it("rates() stay finite and not negative whatever is observed", () => {
    const any = fc.double();
    fc.assert(
      fc.property(fc.array(fc.tuple(any, any, any, any), { maxLength: 60 }), (rows) => {
        const c = new Calibration();
        for (const [uncachedTokens, queuedTokens, streams, ttftMs] of rows) {
          c.observe({
            uncachedTokens: Math.min(uncachedTokens, 1e7),
            queuedTokens: Math.min(queuedTokens, 1e7),
            streams: Math.min(streams, 1e5),
            ttftMs: Math.min(ttftMs, 1e7),
          });
        }
        for (const figure of Object.values(c.rates())) {
          expect(Number.isFinite(figure)).toBe(true);
          expect(figure).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });
});

describe("TokenRatio", () => {
  it("tokens() learns a model's ratio", () => {
    const ratio = new TokenRatio();
    expect(ratio.tokens(400)).toBe(100);
    for (let i = 0; i < 50; i++) ratio.observe(2000, 1000);
    expect(ratio.tokens(400)).toBeGreaterThan(190);
    expect(ratio.tokens(0)).toBe(0);
    expect(ratio.tokens(1)).toBe(1);
  });
});
