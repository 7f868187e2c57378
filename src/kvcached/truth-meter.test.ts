import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KV_ALARM_CODES } from "../core/kv-status.ts";
import {
  judgedTruth,
  judgeTruth,
  NEW_TRUTH,
  observeTruth,
  type TruthFacts,
  type TruthState,
  truthWindows,
} from "./truth-meter.ts";

const FACTS: TruthFacts = {
  type: "events",
  endpoint: "tcp://10.0.0.1:5557",
  events: 10,
  lostStretches: 0,
  orphanedBlocks: 0,
  announcedBlockTokens: 16,
  seenBlockTokens: 16,
  mismatch: "",
  offload: undefined,
};
const MIN = 60_000;

/** A state after `requests` alike, one a second from `from` on. */
function metered(
  requests: number,
  predicted: number,
  reported: number | undefined,
  from = 0,
  state = NEW_TRUTH,
): TruthState {
  for (let i = 0; i < requests; i++) state = observeTruth(state, predicted, reported, from + 1000 * i);
  return state;
}

const codes = (state: TruthState) => Object.keys(state.alarms);

function judged(state: TruthState, facts: Partial<TruthFacts>, now: number) {
  const [next, changes] = judgeTruth(state, { ...FACTS, ...facts }, now);
  return { next, changes, standing: codes(next) };
}

describe("judgeTruth", () => {
  it("raises nothing while predictions are right", () => {
    expect(judged(metered(100, 640, 640), {}, 2 * MIN).standing).toEqual([]);
  });

  it("raises PUBLISHER_MISSING when requests flow and nothing was ever published, and clears it with the first event", () => {
    const state = metered(40, 0, undefined);
    expect(judged(state, { events: 0 }, 20_000).standing).toEqual([]);
    const { next, changes } = judged(state, { events: 0 }, MIN);
    expect(codes(next)).toEqual(["PUBLISHER_MISSING"]);
    expect(changes).toMatchObject([{ code: "PUBLISHER_MISSING", raised: true }]);
    expect(changes[0]?.message).toMatch(/nothing at tcp:\/\/10\.0\.0\.1:5557\. Start it with its KV event publisher/);
    expect(judged(next, { events: 0 }, 2 * MIN).changes).toEqual([]);
    expect(judged(next, { events: 1 }, 2 * MIN).changes).toMatchObject([{ code: "PUBLISHER_MISSING", raised: false }]);
    expect(judged(state, { events: 0, type: "history" }, MIN).standing).toEqual([]);
  });

  it("raises BLOCK_SIZE_WRONG when events say otherwise than was announced", () => {
    expect(judged(NEW_TRUTH, { seenBlockTokens: 32 }, 0).standing).toEqual(["BLOCK_SIZE_WRONG"]);
    expect(judged(NEW_TRUTH, { announcedBlockTokens: undefined }, 0).standing).toEqual([]);
  });

  it("raises EVENTS_LOST, and blames no tokenizer, where blocks follow ones that nobody heard of", () => {
    const { next, standing } = judged(metered(30, 10, 320), { orphanedBlocks: 50 }, MIN);
    expect(standing).toEqual(["EVENTS_LOST"]);
    expect(next.alarms.EVENTS_LOST?.message).toMatch(/50 blocks follow ones that it stored before .* replay endpoint/);
    expect(judged(metered(30, 300, 320, 11 * MIN, next), { orphanedBlocks: 50 }, 12 * MIN).standing).toEqual([]);
  });

  it("raises TOKENIZER_MISMATCH for what the probe found, and when prompts never find what is stored", () => {
    expect(judged(NEW_TRUTH, { mismatch: "3 of 40 chats differ" }, 0).standing).toEqual(["TOKENIZER_MISMATCH"]);
    const blind = judged(metered(30, 0, 320), {}, MIN);
    expect(blind.standing).toEqual(["TOKENIZER_MISMATCH"]);
    // Better is not yet good: it stands until half is seen.
    const better = judged(metered(30, 100, 320, 11 * MIN, blind.next), {}, 12 * MIN);
    expect(better.standing).toEqual(["TOKENIZER_MISMATCH"]);
    expect(judged(metered(30, 300, 320, 23 * MIN, better.next), {}, 24 * MIN).standing).toEqual([]);
  });

  it("raises EVENTS_LOST for ten minutes after a loss, and while engines have much less than predicted", () => {
    const lost = judged(NEW_TRUTH, { lostStretches: 1 }, MIN);
    expect(lost.standing).toEqual(["EVENTS_LOST"]);
    expect(judged(lost.next, { lostStretches: 1 }, 10 * MIN).standing).toEqual(["EVENTS_LOST"]);
    expect(judged(lost.next, { lostStretches: 1 }, 11 * MIN).standing).toEqual([]);
    expect(judged(metered(30, 320, 100), {}, MIN).standing).toEqual(["EVENTS_LOST"]);
    expect(judged(metered(19, 320, 100), {}, MIN).standing).toEqual([]);
  });

  it("raises OFFLOAD_NEVER_HITS after many tokens looked for and none found", () => {
    const asked = (queriedTokens: number, hitTokens: number) =>
      judged(NEW_TRUTH, { offload: { queriedTokens, hitTokens } }, 0).standing;
    expect(asked(600_000, 0)).toEqual(["OFFLOAD_NEVER_HITS"]);
    expect(asked(400_000, 0)).toEqual([]);
    expect(asked(600_000, 16)).toEqual([]);
  });

  it("says of each change once, keeps the time since when an alarm stands, and gives a remedy", () => {
    const step = fc.record({
      ms: fc.nat(5 * MIN),
      requests: fc.nat(30),
      predicted: fc.constantFrom(0, 64, 640),
      reported: fc.constantFrom(undefined, 0, 64, 640),
      events: fc.constantFrom(0, 5),
      lost: fc.nat(1),
      seen: fc.constantFrom(16, 32),
      mismatch: fc.constantFrom("", "ids differ"),
      hits: fc.constantFrom(0, 1),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let state = NEW_TRUTH;
        let [now, events, lostStretches] = [0, 0, 0];
        const standing = new Map<string, number>();
        for (const s of steps) {
          now += s.ms;
          for (let i = 0; i < s.requests; i++) state = observeTruth(state, s.predicted, s.reported, now);
          events += s.events;
          lostStretches += s.lost;
          const offload = { queriedTokens: now * 10, hitTokens: s.hits };
          const facts = { ...FACTS, events, lostStretches, seenBlockTokens: s.seen, mismatch: s.mismatch, offload };
          const [next, changes] = judgeTruth(state, facts, now);
          for (const { code, raised, message } of changes) {
            expect(raised).toBe(!standing.has(code));
            expect(message).toMatch(/\. (Start|Set|Name|Give|Look) /);
            if (raised) standing.set(code, now);
            else standing.delete(code);
          }
          for (const code of KV_ALARM_CODES) expect(next.alarms[code]?.since).toBe(standing.get(code));
          // Looking again at the same moment changes nothing.
          expect(judgeTruth(next, facts, now)).toEqual([next, []]);
          state = next;
        }
        expect(state.history.before.length).toBeLessThan(360);
      }),
    );
  });
});

describe("truthWindows", () => {
  it("sums what came within each stretch of time, to 10 s", () => {
    const tokens = { predicted: fc.nat(100), reported: fc.nat(100) };
    const request = fc.record({ ms: fc.nat(400_000), ...tokens, judgedMs: fc.nat(4_000), late: fc.boolean() });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 60 }), (requests) => {
        let [state, now] = [NEW_TRUTH, 0];
        const seen: { readonly at: number; readonly predicted: number; readonly reported: number }[] = [];
        const verdicts: { readonly at: number; readonly late: boolean }[] = [];
        for (const { ms, predicted, reported, judgedMs, late } of requests) {
          now += ms;
          state = observeTruth(state, predicted, reported, now);
          seen.push({ at: now, predicted, reported });
          if (predicted === reported) continue;
          now += judgedMs;
          state = judgedTruth(state, late ? "in_flight" : "unexplained", now);
          verdicts.push({ at: now, late });
        }
        for (const window of truthWindows(state, now)) {
          const from = (Math.floor(now / 10_000) - window.seconds / 10 + 1) * 10_000;
          const within = seen.filter((one) => one.at >= from);
          expect(window).toEqual({
            seconds: window.seconds,
            requests: within.length,
            exact: within.filter((one) => one.predicted === one.reported).length,
            inFlight: verdicts.filter((one) => one.at >= from && one.late).length,
            unexplained: verdicts.filter((one) => one.at >= from && !one.late).length,
            predictedTokens: within.reduce((sum, one) => sum + one.predicted, 0),
            reportedTokens: within.reduce((sum, one) => sum + one.reported, 0),
          });
        }
      }),
    );
  });
});
