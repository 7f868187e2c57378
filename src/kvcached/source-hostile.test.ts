import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { KvEventBatch } from "../core/kv-event.ts";
import { initialSource, type SourceEffect, type SourceInput } from "./source-state.ts";
import { stepSource } from "./source-step.ts";

const POLICY = {
  replayMs: 3_000,
  checkMs: 10_000,
  silentMs: 60_000,
  maxPending: 16,
  maxReplays: 4,
  maxTrouble: 32,
  failMs: 1_000,
  failMaxMs: 60_000,
};

const seq = fc.oneof(
  fc.nat(6),
  fc.nat(2_000),
  fc.constantFrom(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1, 2 ** 32),
);
const ts = fc.oneof(
  fc.nat(8),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-1, Number.MAX_VALUE),
);
const batch = fc.oneof(
  { weight: 5, arbitrary: ts.map((t): KvEventBatch | undefined => ({ ts: t, dpRank: undefined, events: [] })) },
  { weight: 1, arbitrary: fc.constant(undefined) },
);
/** All that a socket, an agent and a clock can say, in any order, whoever forged it. */
const input: fc.Arbitrary<SourceInput> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ type: fc.constant("live" as const), seq, batch }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant("reply" as const), request: fc.nat(5), seq, batch }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("replay-end" as const), request: fc.nat(5) }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<SourceInput>({ type: "connected" }, { type: "disconnected" }, { type: "garbage" }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant("notice" as const), what: fc.constantFrom("restarted", "reset") }),
  },
  { weight: 2, arbitrary: fc.constant<SourceInput>({ type: "tick" }) },
);

/** Between two clears the numbers follow each other, and a request asks for what can be asked for. */
function check(effects: readonly SourceEffect[], last: number | undefined): number | undefined {
  for (const effect of effects) {
    if (effect.do === "clear") last = undefined;
    else if (effect.do === "request-replay") expect(Number.isSafeInteger(effect.from) && effect.from >= 0).toBe(true);
    else {
      if (last !== undefined) expect(effect.seq).toBe(last + 1);
      last = effect.seq;
    }
  }
  return last;
}

describe("stepSource() with a hostile engine", () => {
  it.each([true, false])("never applies a hole, holds little, and always comes to rest (replay: %s)", (hasReplay) => {
    fc.assert(
      fc.property(fc.array(fc.tuple(input, fc.nat(3_000)), { maxLength: 120 }), (steps) => {
        let state = initialSource(hasReplay, 0);
        let now = 0;
        let last: number | undefined;
        const feed = (one: SourceInput) => {
          const [next, ...effects] = stepSource(state, one, now, POLICY);
          state = next;
          last = check(effects, last);
          expect(effects.length).toBeLessThanOrEqual(POLICY.maxPending + 3);
          expect(state.pending?.count ?? 0).toBeLessThanOrEqual(POLICY.maxPending);
        };
        for (const [one, ms] of steps) {
          now += ms;
          feed(one);
        }
        // It says nothing more: every replay ends, every failure is over.
        feed({ type: "connected" });
        for (let i = 0; i < 200; i++) {
          now += 1_000;
          feed({ type: "tick" });
        }
        expect(["live", "silent", "replaying", "failed"]).toContain(state.at);
        expect(state.pending).toBeUndefined();
      }),
      { numRuns: 250 },
    );
  });
});
