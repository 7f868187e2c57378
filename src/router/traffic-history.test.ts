import { describe, expect, it } from "vitest";
import { handClock } from "./testing/hand-clock.ts";
import { TrafficHistory } from "./traffic-history.ts";

const MINUTE = 60_000;

function rig(gauges = { inFlight: 0, queued: 0 }) {
  const clock = handClock();
  return { clock, gauges, history: new TrafficHistory(clock, () => gauges) };
}

const last = (values: readonly (number | null)[] | undefined): number | null | undefined => values?.at(-1);

describe("TrafficHistory", () => {
  it("columns() says rates, shares and quantiles of a point", async () => {
    const { clock, history } = rig();
    for (let i = 0; i < 30; i++) history.ended("ok", 100);
    history.ended("upstream_error", undefined);
    history.ended("rejected", undefined);
    history.tokens(1_000, 50, 400, 300);
    history.tokens(1_000, 50, 600, undefined);
    history.tokens(undefined, 7, undefined, undefined);
    history.paced(20);
    await clock.pass(15_000);
    const { columns } = history.columns(1, 100);
    const at = columns.requestsPerS!.length - 2;
    expect(columns.requestsPerS![at]).toBeCloseTo(32 / 15, 3);
    expect([columns.errorsPerS![at], columns.refusedPerS![at]].map((v) => v! * 15)).toEqual([
      expect.closeTo(1, 3),
      expect.closeTo(1, 3),
    ]);
    expect(columns.generatedPerS![at]! * 15).toBeCloseTo(107, 1);
    expect([columns.hitReal![at], columns.hitPredicted![at]]).toEqual([0.5, 0.3]);
    // Bins are half an octave wide.
    expect(columns.ttftP50![at]).toBeGreaterThan(100 / Math.SQRT2);
    expect(columns.ttftP90![at]).toBeLessThan(100 * Math.SQRT2);
    expect(columns.itlP50![at]).toBeGreaterThan(20 / Math.SQRT2);
    expect(last(columns.hitReal)).toBe(null);
  });

  it("columns() has null before the router started, and zeros where nothing came", async () => {
    const { clock, history } = rig();
    await clock.pass(MINUTE);
    const { columns, stepMs } = history.columns(10, 1_000);
    expect(stepMs).toBe(15_000);
    expect(columns.requestsPerS!.slice(0, -5).every((v) => v === null)).toBe(true);
    expect(columns.requestsPerS!.slice(-4)).toEqual([0, 0, 0, 0]);
    expect(columns.ttftP50!.every((v) => v === null)).toBe(true);
  });

  it("columns() joins points where more are asked for than wanted, and loses none", async () => {
    const { clock, history } = rig();
    for (let i = 0; i < 240; i++) {
      history.ended("ok", i < 120 ? 10 : 1_000);
      await clock.pass(15_000);
    }
    const { columns, stepMs } = history.columns(60, 30);
    expect(columns.requestsPerS!.length).toBeLessThanOrEqual(32);
    const seconds = stepMs / 1_000;
    const counted = columns.requestsPerS!.slice(0, -1).reduce<number>((sum, v) => sum + (v ?? 0) * seconds, 0);
    expect(counted).toBeGreaterThan(230);
    expect(columns.ttftP50![2]).toBeLessThan(20);
    expect(columns.ttftP50!.at(-2)).toBeGreaterThan(500);
  });

  it("keeps a day, and forgets what is older", async () => {
    const { clock, history } = rig();
    history.ended("ok", 10);
    await clock.pass(24 * 60 * MINUTE - 15_000);
    expect(history.columns(1_440, 10_000).columns.requestsPerS!.some((v) => v !== null && v > 0)).toBe(true);
    await clock.pass(15_000);
    expect(history.columns(1_440, 10_000).columns.requestsPerS!.some((v) => v !== null && v > 0)).toBe(false);
  });

  it("samples what is in flight and waits, and keeps the most of a point", async () => {
    const { clock, gauges, history } = rig({ inFlight: 3, queued: 1 });
    await clock.pass(3_000);
    Object.assign(gauges, { inFlight: 9, queued: 0 });
    await clock.pass(3_000);
    Object.assign(gauges, { inFlight: 1 });
    await clock.pass(3_000);
    const { inFlight, queued } = history.columns(1, 100).columns;
    expect([Math.max(...inFlight!.map((v) => v ?? 0)), Math.max(...queued!.map((v) => v ?? 0))]).toEqual([9, 1]);
    history.close();
    Object.assign(gauges, { inFlight: 99 });
    await clock.pass(MINUTE);
    expect(Math.max(...history.columns(5, 100).columns.inFlight!.map((v) => v ?? 0))).toBe(9);
  });
});
