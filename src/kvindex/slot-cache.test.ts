import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SlotRules } from "../core/worker.ts";
import { keptPrompt, SlotCache, type SlotRun, type TotalTokens } from "./slot-cache.ts";
import { countPieces } from "./token-pieces.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
/** A token a byte: all counts are exact. */
const exact: TotalTokens = (prompt, covered, tokens) => tokens + prompt.length - covered;
const kept = (text: string) =>
  keptPrompt(
    "",
    utf8(text),
    Array.from(text, (_, i) => ({ byteLength: i + 1, tokens: i + 1 })),
  );
const RULES: SlotRules = { count: 2, minShare: 0.1, storeTokens: 100, emptiesFree: true };

const rules = fc.record({
  count: fc.integer({ min: 1, max: 3 }),
  minShare: fc.constantFrom(0, 0.1, 0.5),
  storeTokens: fc.constantFrom(0, 30, 1000),
  emptiesFree: fc.boolean(),
  savesFree: fc.boolean(),
});
const text = fc.array(fc.constantFrom("a", "b", "ab", "aaaa"), { minLength: 1, maxLength: 6 }).map((t) => t.join(""));
const steps = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("start" as const), text }),
    fc.record({ type: fc.constant("finish" as const), at: fc.nat(), answer: text }),
    fc.record({ type: fc.constant("cancel" as const), at: fc.nat() }),
  ),
  { maxLength: 40 },
);

describe("SlotCache", () => {
  it("SlotCache promises only what was sent and answered, never a whole prompt, and is bounded", () => {
    fc.assert(
      fc.property(rules, steps, text, (rule, list, asked) => {
        const cache = new SlotCache(rule, exact);
        const seen: string[] = [];
        let runs: { run: SlotRun; text: string }[] = [];
        for (const step of list) {
          if (step.type === "start") {
            runs.push({ run: cache.start("", utf8(step.text)), text: step.text });
            seen.push(step.text);
            continue;
          }
          const ended = runs[step.at % Math.max(1, runs.length)];
          if (ended === undefined) continue;
          runs = runs.filter((each) => each !== ended);
          if (step.type === "cancel") cache.cancel(ended.run);
          else {
            cache.finish(ended.run, kept(ended.text + step.answer));
            seen.push(ended.text + step.answer);
          }
          const { bytes, tokens } = cache.match("", utf8(asked));
          expect(tokens).toBeLessThan(asked.length);
          expect(seen.some((each) => each.startsWith(asked.slice(0, bytes)))).toBe(true);
          expect(cache.match("other", utf8(asked)).tokens).toBe(0);
          expect(cache.size).toBeLessThanOrEqual(rule.count + rule.storeTokens);
        }
      }),
    );
  });

  it("cancel() right after start() changes nothing", () => {
    fc.assert(
      fc.property(rules, fc.array(text, { maxLength: 8 }), text, fc.array(text), (rule, sent, failed, asked) => {
        const cache = new SlotCache(rule, exact);
        for (const each of sent) cache.finish(cache.start("", utf8(each)), kept(`${each}!`));
        const all = () => [failed, ...asked, ...sent].map((each) => cache.match("", utf8(each)));
        const before = all();
        cache.cancel(cache.start("", utf8(failed)));
        expect(all()).toEqual(before);
      }),
    );
  });

  it("match() finds nothing where the common part is too small a share of the prompt", () => {
    const cache = new SlotCache(RULES, exact);
    cache.finish(cache.start("", utf8("abcdefgh")), kept("abcdefgh"));
    expect(cache.match("", utf8(`ab${"x".repeat(17)}`)).tokens).toBe(2);
    expect(cache.match("", utf8(`ab${"x".repeat(18)}`)).tokens).toBe(0);
  });

  it("start() overwrites what a slot goes on with, and saves what it does not", () => {
    const cache = new SlotCache(RULES, exact);
    const send = (prompt: string) => cache.finish(cache.start("", utf8(prompt)), kept(prompt));
    send("shared prefix, A");
    send("shared prefix, B");
    // More than half of A went on as B: it was computed over, not saved.
    expect(cache.match("", utf8("shared prefix, A+")).tokens).toBe(15);
    send("shared: quite another text");
    expect(cache.match("", utf8("shared prefix, B+")).tokens).toBe(16);
  });

  it("start() copies what lies in free slots into the store, where slots keep theirs (a context a slot)", () => {
    const found = [false, true].map((savesFree) => {
      const cache = new SlotCache({ ...RULES, storeTokens: 1000, emptiesFree: false, savesFree }, exact);
      const send = (prompt: string) => cache.finish(cache.start("", utf8(prompt)), kept(prompt));
      for (const prompt of ["aaaabbbb", "cccc", "aaaabb+two", "cccc+", "other"]) send(prompt);
      return cache.match("", utf8("aaaabbbbb")).tokens;
    });
    // The second turn went over the first one's end; a copy of it was made when "cccc" began.
    expect(found).toEqual([6, 8]);
  });

  it("start() stores nothing that is larger than the store", () => {
    const cache = new SlotCache({ ...RULES, count: 1, storeTokens: 5 }, exact);
    const send = (prompt: string) => cache.finish(cache.start("", utf8(prompt)), kept(prompt));
    for (const prompt of ["long prompt", "abc", "xyz"]) send(prompt);
    expect(cache.match("", utf8("long prompt!")).tokens).toBe(0);
    expect(cache.match("", utf8("abcd")).tokens).toBe(3);
  });

  it("start() lets the oldest go when the store is full", () => {
    const cache = new SlotCache({ ...RULES, storeTokens: 25 }, exact);
    const send = (prompt: string) => cache.finish(cache.start("", utf8(prompt)), kept(prompt));
    for (const letter of ["a", "b", "c", "d"]) send(letter.repeat(10));
    expect(["a", "b", "c", "d"].map((letter) => cache.match("", utf8(letter.repeat(11))).tokens)).toEqual([
      0, 10, 10, 10,
    ]);
  });

  it("start() works with a view into a larger buffer, and keeps no view", () => {
    const cache = new SlotCache(RULES, exact);
    const buffer = Buffer.from("xxxhello there");
    const run = cache.start("", buffer.subarray(3));
    buffer.fill("y");
    cache.finish(run, kept("hello there"));
    expect(cache.match("", utf8("hello there you")).tokens).toBe(11);
    expect(new TextDecoder().decode(run.prompt)).toBe("hello there");
  });
});

describe("countPieces()", () => {
  it("countPieces() counts words, digits and special tokens as one each", () => {
    const pieces = (of: string) => countPieces(utf8(of)).upTo(of.length) / 10;
    expect(pieces("<|im_start|>system\nYou are kind.<|im_end|>")).toBe(8);
    expect(pieces("in 2026")).toBe(5);
    expect(pieces("")).toBe(0);
  });

  it("countPieces() never falls, and is the same however far one looks", () => {
    const part = fc.constantFrom(
      "<|im_end|>",
      "<|",
      "word ",
      "antidisestablishment",
      "\n\n",
      "12",
      "é",
      "日本",
      "  ",
      ">",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (parts) => {
        const bytes = utf8(parts.join(""));
        const pieces = countPieces(bytes);
        let last = 0;
        for (let at = 0; at <= bytes.length + 2; at++) {
          const now = pieces.upTo(at);
          expect(now).toBeGreaterThanOrEqual(last);
          expect(now - last).toBeLessThanOrEqual(20);
          last = now;
        }
      }),
    );
  });
});
