import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventKnowledge, HistoryKnowledge } from "./known-blocks.ts";

const ENGINES = 40;

describe("EventKnowledge", () => {
  it("match() says what one set for each engine says", () => {
    const keys = fc.uniqueArray(fc.nat(30), { maxLength: 12 });
    const step = fc.record({
      engine: fc.nat(ENGINES - 1),
      stored: keys,
      removed: keys,
      clear: fc.boolean(),
      ask: keys,
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const known = new EventKnowledge(ENGINES);
        const sets = Array.from({ length: ENGINES }, () => new Set<number>());
        steps.forEach(({ engine, stored, removed, clear, ask }, at) => {
          if (clear) {
            known.clear(engine);
            sets[engine]!.clear();
          }
          known.hear({ at, engine, stored, removed });
          for (const key of removed) sets[engine]!.delete(key);
          for (const key of stored) sets[engine]!.add(key);
          const depth = known.match(at, ask);
          const expected = sets.map((set) => {
            const end = ask.findIndex((key) => !set.has(key));
            return end < 0 ? ask.length : end;
          });
          expect([...depth]).toEqual(expected);
        });
      }),
    );
  });

  it("match() does not know what was stored before its news came", () => {
    const known = new EventKnowledge(2);
    known.hear({ at: 10, engine: 1, stored: [1, 2], removed: [] });
    expect([...known.match(9, [1, 2])]).toEqual([0, 0]);
    expect([...known.match(10, [1, 2])]).toEqual([0, 2]);
    known.correct(1, [1, 2], 1);
    expect([...known.match(11, [1, 2])]).toEqual([0, 1]);
  });
});

describe("HistoryKnowledge", () => {
  it("match() knows the last prompts of each engine only, and believes what an answer denies no longer", () => {
    const known = new HistoryKnowledge(2, 2);
    known.sent(0, [1, 2, 3]);
    known.sent(0, [1, 4]);
    expect([...known.match(0, [1, 2, 3, 9])]).toEqual([3, 0]);
    known.sent(0, [5]);
    expect([...known.match(0, [1, 2, 3])]).toEqual([1, 0]);
    known.correct(0, [1, 4], 0);
    expect([...known.match(0, [1, 4])]).toEqual([0, 0]);
  });

  it("sent() lets a prompt take the place of one that it goes on from", () => {
    const known = new HistoryKnowledge(1, 2);
    known.sent(0, [1, 2]);
    known.sent(0, [7]);
    known.sent(0, [1, 2, 3]);
    expect([...known.match(0, [7])]).toEqual([1]);
    expect([...known.match(0, [1, 2, 3])]).toEqual([3]);
  });
});
