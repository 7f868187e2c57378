import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  admits,
  type Breaker,
  type BreakerEvent,
  CLOSED,
  OPEN_MAX_MS,
  OPEN_MS,
  RUN_LIMIT,
  SHARE_RESULTS,
  stepBreaker,
} from "./breaker.ts";

const bad = (startedMs = 0, sure = false): BreakerEvent => ({ type: "bad", startedMs, sure, reason: "reset" });
const good = (startedMs = 0): BreakerEvent => ({ type: "good", startedMs });

/** Steps at times in ms; jitter of none. */
function run(steps: readonly (readonly [number, BreakerEvent])[], from: Breaker = CLOSED): Breaker {
  return steps.reduce((state, [at, event]) => stepBreaker(state, event, at, 1), from);
}

describe("stepBreaker()", () => {
  it("opens after a run of failures, and not when successes lie between", () => {
    const failures = Array.from({ length: RUN_LIMIT }, (_, i) => [i, bad(i)] as const);
    expect(run(failures).at).toBe("open");
    expect(run(failures.slice(1)).at).toBe("closed");
    // One bad in three, for long: below half.
    const mixed = Array.from({ length: 300 }, (_, i) => [i, i % 3 === 0 ? bad(i) : good(i)] as const);
    expect(run(mixed).at).toBe("closed");
  });

  it("opens at half of the results, though no run is long", () => {
    const mixed = Array.from({ length: SHARE_RESULTS + 1 }, (_, i) => [i, i % 3 < 2 ? bad(i) : good(i)] as const);
    expect(run(mixed).at).toBe("open");
  });

  it("opens at once when nobody listens", () => {
    expect(run([[0, bad(0, true)]])).toMatchObject({ at: "open", untilMs: OPEN_MS, reason: "reset" });
  });

  it("half-opens only after its time and a good look, lets one request pass, and closes when that is answered", () => {
    const open = run([[0, bad(0, true)]]);
    expect(run([[OPEN_MS - 1, { type: "looked", ok: true }]], open)).toBe(open);
    const half = run([[OPEN_MS, { type: "looked", ok: true }]], open);
    expect([half.at, admits(half)]).toEqual(["half-open", true]);
    const trial = run([[OPEN_MS, { type: "begun" }]], half);
    expect(admits(trial)).toBe(false);
    expect(run([[OPEN_MS + 5, good(OPEN_MS)]], trial).at).toBe("closed");
    expect(admits(run([[OPEN_MS + 5, { type: "untold", startedMs: OPEN_MS }]], trial))).toBe(true);
    // What began before it opened says nothing of the worker now.
    expect(run([[OPEN_MS + 5, good(0)]], trial)).toBe(trial);
    expect(run([[OPEN_MS + 5, bad(0)]], trial)).toBe(trial);
  });

  it("stays open twice as long each time, up to a limit, and starts anew after a good minute or another process", () => {
    let state = run([[0, bad(0, true)]]);
    let at = 0;
    const lengths: number[] = [];
    for (let i = 0; i < 8; i++) {
      if (state.at !== "open") throw new Error(state.at);
      lengths.push(state.untilMs - at);
      at = state.untilMs;
      state = run([[at, { type: "looked", ok: false }]], state);
    }
    expect(lengths.slice(0, 4)).toEqual([1, 2, 4, 8].map((n) => n * OPEN_MS));
    expect(Math.max(...lengths)).toBe(OPEN_MAX_MS);
    const back = run([[at + OPEN_MAX_MS, good(at)]], state);
    const soon = run([[at + OPEN_MAX_MS + 10, bad(at, true)]], back);
    const late = run([[at + OPEN_MAX_MS + 100_000, bad(at, true)]], back);
    const lasts = (b: Breaker): number => (b.at === "open" ? b.untilMs - b.sinceMs : 0);
    expect([lasts(soon), lasts(late)]).toEqual([OPEN_MAX_MS, OPEN_MS]);
    expect(run([[at, { type: "restarted" }]], state)).toBe(CLOSED);
  });
});

const event: fc.Arbitrary<BreakerEvent> = fc.oneof(
  fc.constant<BreakerEvent>({ type: "begun" }),
  fc.nat(100_000).map((startedMs): BreakerEvent => ({ type: "good", startedMs })),
  fc
    .record({ startedMs: fc.nat(100_000), sure: fc.boolean() })
    .map((of): BreakerEvent => ({ type: "bad", reason: "x", ...of })),
  fc.nat(100_000).map((startedMs): BreakerEvent => ({ type: "untold", startedMs })),
  fc.boolean().map((ok): BreakerEvent => ({ type: "looked", ok })),
  fc.constant<BreakerEvent>({ type: "restarted" }),
);
const history = fc.array(fc.tuple(fc.nat(5_000), event, fc.double({ min: 0, max: 1, noNaN: true })), {
  maxLength: 200,
});

/** After any history: the state, and the time. */
function reached(steps: readonly (readonly [number, BreakerEvent, number])[]): { state: Breaker; at: number } {
  let at = 0;
  let state: Breaker = CLOSED;
  for (const [passes, what, random] of steps) {
    at += passes;
    // Nothing tells of a request that began later than now.
    const told = "startedMs" in what ? { ...what, startedMs: Math.min(what.startedMs, at) } : what;
    state = stepBreaker(state, told, at, random);
  }
  return { state, at };
}

describe("stepBreaker(), for any history", () => {
  it("never holds a worker back for ever: a look after its time and one answer close it", () => {
    fc.assert(
      fc.property(history, (steps) => {
        let { state, at } = reached(steps);
        at += OPEN_MAX_MS;
        state = stepBreaker(state, { type: "looked", ok: true }, at, 1);
        // A request that was on its way as the deciding one ends somehow.
        state = stepBreaker(state, { type: "untold", startedMs: at }, at, 1);
        expect(admits(state)).toBe(true);
        state = stepBreaker(state, { type: "begun" }, at, 1);
        expect(stepBreaker(state, { type: "good", startedMs: at }, at, 1).at).toBe("closed");
      }),
    );
  });

  it("does not open by what is no failure, and stays open within its bounds", () => {
    fc.assert(
      fc.property(history, event, fc.double({ min: 0, max: 1, noNaN: true }), (steps, next, random) => {
        const { state, at } = reached(steps);
        const told = "startedMs" in next ? { ...next, startedMs: Math.min(next.startedMs, at) } : next;
        const then = stepBreaker(state, told, at, random);
        if (state.at === "closed" && next.type !== "bad") expect(then.at).toBe("closed");
        if (then.at === "open" && then !== state) {
          expect(then.untilMs - at).toBeGreaterThanOrEqual(OPEN_MS * 0.75);
          expect(then.untilMs - at).toBeLessThanOrEqual(OPEN_MAX_MS);
        }
        // Only one request decides at a time.
        if (state.at === "half-open" && state.trial) expect(admits(state)).toBe(false);
      }),
    );
  });

  it("costs a healthy worker nothing: good results leave the very same state", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(100_000)), (times) => {
        for (const at of times) expect(stepBreaker(CLOSED, { type: "good", startedMs: at }, at, 0.5)).toBe(CLOSED);
      }),
    );
  });
});
