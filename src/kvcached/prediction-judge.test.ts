import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { PredictionVerdict } from "../core/prefix-knowledge.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { AppliedIndex } from "./applied-index.ts";
import { PredictionJudge } from "./prediction-judge.ts";

const BLOCK_TOKENS = 16;
const BYTES = 4;

/** Time that goes on when it is told to. */
function handClock() {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    wall: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((each) => each !== timer);
      };
    },
    pass(ms: number) {
      now += ms;
      const due = timers.filter((timer) => timer.at <= now);
      timers = timers.filter((timer) => timer.at > now);
      for (const { run } of due) run();
    },
    timers: () => timers.length,
  };
}

/** A worker whose blocks are 4 characters long, with names that come from the text before, as engines make them. */
function setUp(maxBytes = 1 << 20) {
  const clock = handClock();
  const index = new AppliedIndex(createPrefixIndex({ capBytes: 2 ** 24, seed: 7 }));
  const slot = index.addWorker(workerId("w"));
  const judge = new PredictionJudge({
    ...{ index: index.index, slot, clock, blockTokens: BLOCK_TOKENS },
    maxBytes: () => maxBytes,
  });
  index.onApplied((_, change) => judge.heard(change));
  const bytes = (text: string) => new TextEncoder().encode(text);
  const nameOf = (text: string): bigint => {
    let hash = 1469598103934665603n;
    for (const c of text) hash = ((hash ^ BigInt(c.charCodeAt(0))) * 1099511628211n) & 0xffffffffffffffffn;
    return hash;
  };
  const names = (text: string, from: number) =>
    Array.from({ length: text.length / BYTES - from }, (_, i) => nameOf(text.slice(0, BYTES * (from + i + 1))));
  return {
    clock,
    judge,
    index,
    slot,
    /** Store all blocks of a text from this one on. */
    store(text: string, from = 0) {
      const list = names(text, from);
      const ends = Uint32Array.from(list, (_, i) => BYTES * (i + 1));
      const parent = from === 0 ? undefined : nameOf(text.slice(0, BYTES * from));
      const of = { root: "", parent, names: list, ends, blockTokens: BLOCK_TOKENS, tier: "device" as const };
      index.store(slot, { ...of, bytes: bytes(text.slice(BYTES * from)) }, new Uint32Array());
    },
    remove: (text: string, from: number) => index.remove(slot, names(text, from)),
    names,
    match: (text: string) => index.index.match("", bytes(text))[0]?.tokens ?? 0,
    /** Judge at once; the verdicts told since. */
    judged(text: string, predictedTokens: number, cachedTokens: number, mark = judge.sent()) {
      const told: PredictionVerdict[] = [];
      const prompt = bytes(text);
      const outcome = { worker: workerId("w"), epoch: 1, model: "m", root: "", prompt, predictedTokens, cachedTokens };
      judge.judge(outcome, mark, 1, (verdict) => told.push(verdict));
      return told;
    },
  };
}

const PROMPT = "aaaabbbbccccddddeeee!";

describe("PredictionJudge", () => {
  it("judge() says exact at once", () => {
    const w = setUp();
    expect(w.judged(PROMPT, 16, 16)).toEqual([{ result: "exact", reason: "" }]);
    expect(w.clock.timers()).toBe(0);
  });

  it("judge() names the event that stored more blocks after the request was sent", () => {
    const w = setUp();
    w.store("aaaabbbb");
    const mark = w.judge.sent();
    w.clock.pass(40);
    w.store("aaaabbbbcccc", 2);
    w.store("aaaabbbbccccddddeeee", 3); // What the request itself computed.
    const reason = "the event that stored blocks that it has came 40 ms after the request was sent";
    expect(w.judged(PROMPT, 32, 48, mark)).toEqual([{ result: "in_flight", reason }]);
  });

  it("judge() names the event that removed blocks, which the request then computed anew", () => {
    const w = setUp();
    w.store("aaaabbbbccccdddd");
    const mark = w.judge.sent();
    w.clock.pass(7);
    w.remove("aaaabbbbccccdddd", 2);
    w.clock.pass(30);
    w.store("aaaabbbbccccddddeeee", 2);
    const reason = "the event that removed blocks that it has came 7 ms after the request was sent";
    expect(w.judged(PROMPT, 64, 32, mark)).toEqual([{ result: "in_flight", reason }]);
  });

  it("judge() waits for an event that comes after the answer, and gives up in the end", () => {
    const w = setUp();
    w.store("aaaabbbb");
    const told = w.judged(PROMPT, 32, 48);
    expect(told).toEqual([]);
    w.store("aaaabbbbcccc", 2);
    w.clock.pass(250);
    expect(told[0]?.result).toBe("in_flight");

    const never = w.judged(PROMPT, 48, 80);
    w.clock.pass(250);
    w.clock.pass(750);
    expect(never).toEqual([]);
    w.clock.pass(2_000);
    expect(never[0]?.result).toBe("unexplained");
    expect(w.clock.timers()).toBe(0);
  });

  it("judge() does not take what the request computed itself for an explanation", () => {
    const w = setUp();
    w.store("aaaabbbb");
    const mark = w.judge.sent();
    w.store("aaaabbbbccccdddd", 2);
    // It reports fewer than were told, and nothing was removed: other tokens than were stored.
    const told = w.judged(PROMPT, 32, 16, mark);
    w.clock.pass(10_000);
    w.clock.pass(10_000);
    w.clock.pass(10_000);
    expect(told[0]?.result).toBe("unexplained");
  });

  it("judge() knows a reset and the check of generated tokens", () => {
    const w = setUp();
    w.store("aaaabbbb");
    const before = w.judge.sent();
    w.index.clearWorker(w.slot);
    expect(w.judged(PROMPT, 32, 0, before)[0]?.reason).toContain("emptied the cache");
    w.store("aaaabbbb");
    const mark = w.judge.sent();
    w.index.setCounted(w.slot, w.names("aaaabbbb", 1), false);
    w.store("aaaabbbb");
    expect(w.judged(PROMPT, 32, 16, mark)[0]?.reason).toContain("check of generated tokens");
  });

  it("sent() from elsewhere goes back to what a copy had not heard yet", () => {
    const w = setUp();
    w.judge.sent();
    w.clock.pass(5_000);
    w.store("aaaabbbb");
    w.clock.pass(300);
    expect(w.judged(PROMPT, 0, 32, w.judge.sent({ elsewhere: true }))[0]?.reason).toContain("300 ms before");
    w.clock.pass(900);
    const late = w.judged(PROMPT, 0, 32, w.judge.sent({ elsewhere: true }));
    for (let i = 0; i < 3; i++) w.clock.pass(3_000);
    expect(late[0]?.result).toBe("unexplained");
  });

  it("sent() of a retry goes back to the match that it was chosen by", () => {
    const w = setUp();
    w.judge.sent();
    w.clock.pass(5_000);
    const matchedMs = w.clock.now();
    w.clock.pass(100);
    w.store("aaaabbbb");
    w.clock.pass(2_000);
    expect(w.judged(PROMPT, 0, 32, w.judge.sent({ matchedMs }))[0]?.result).toBe("in_flight");
  });

  it("judge() says that too much changed when the journal is too small", () => {
    const w = setUp(1_000);
    w.store("aaaa");
    const mark = w.judge.sent();
    w.store("aaaabbbb", 1);
    for (let i = 0; i < 20; i++) w.store(`x${i}xxyyyy`.slice(0, 8));
    const told = w.judged(PROMPT, 16, 32, mark);
    for (let i = 0; i < 3; i++) w.clock.pass(3_000);
    expect(told[0]).toMatchObject({ result: "unexplained", reason: expect.stringContaining("more changed") });
  });

  it("judge() explains every miss of an engine whose events come late, whatever it stores and evicts", () => {
    const text = fc.array(fc.constantFrom("aaaa", "bbbb"), { minLength: 1, maxLength: 6 }).map((list) => list.join(""));
    const step = fc.record({ text, evict: fc.boolean(), at: fc.nat(5) });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 12 }),
        fc.array(step, { minLength: 1, maxLength: 8 }),
        text,
        fc.nat(8),
        (before, late, body, looksAt) => {
          const w = setUp();
          const engine = setUp();
          const run = (of: ReturnType<typeof setUp>, { text, evict, at }: (typeof before)[number]) => {
            if (evict) of.remove(text, Math.min(at, text.length / BYTES - 1));
            else of.store(text);
          };
          for (const each of before) for (const of of [w, engine]) run(of, each);
          const prompt = `${body}!`;
          const predicted = w.match(prompt);
          const mark = w.judge.sent();
          const looked = Math.min(looksAt, late.length);
          for (const each of late.slice(0, looked)) run(engine, each);
          const reported = engine.match(prompt);
          for (const each of late) run(w, each);
          // Its own blocks come last.
          w.store(body);
          expect(w.judged(prompt, predicted, reported, mark)[0]?.result).toBe(
            predicted === reported ? "exact" : "in_flight",
          );
        },
      ),
      { numRuns: 300 },
    );
  });
});
