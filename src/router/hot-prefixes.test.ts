import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { MatchQuery } from "../core/prefix-knowledge.ts";
import { HotPrefixes, sharedPrefixes } from "./hot-prefixes.ts";
import { handClock } from "./testing/hand-clock.ts";
import { scriptedKnowledge } from "./testing/test-router.ts";

const query = (text: string, model = "m", root = ""): MatchQuery => ({ model, root, prompt: Buffer.from(text) });
const SYSTEM = "You are a helpful assistant of the company. ".repeat(10);
const DOCUMENT = "Clause after clause after clause. ".repeat(40);

describe("HotPrefixes", () => {
  it("hottest() finds what prompts share, the dearest first, and asks who has it", async () => {
    const clock = handClock();
    const prefixes = new HotPrefixes(clock);
    const texts = [
      `${SYSTEM}${DOCUMENT}Why?`,
      `${SYSTEM}${DOCUMENT}How?`,
      `${SYSTEM}Hello`,
      `${SYSTEM}Bye`,
      "x".repeat(90),
    ];
    for (const [i, text] of texts.entries()) {
      prefixes.note(`r${i}`, query(text));
      await clock.pass(100);
    }
    const knowledge = scriptedKnowledge();
    knowledge.matches = [
      { worker: workerId("a"), tokens: 16, blocks: 1, bytes: 64, tier: "host", source: "events" },
      { worker: workerId("b"), tokens: 64, blocks: 4, bytes: 256, tier: "device", source: "events" },
      { worker: workerId("c"), tokens: 0, blocks: 0, bytes: 0, tier: "device", source: "events" },
    ];
    const found = await prefixes.hottest(knowledge);
    expect(found.looked).toBe(5);
    expect(found.prefixes.map(({ requests, bytes, last }) => [requests, bytes, last.id])).toEqual([
      [2, SYSTEM.length + DOCUMENT.length, "r1"],
      [4, SYSTEM.length, "r3"],
    ]);
    expect(found.prefixes[0]!.holders).toEqual([
      { worker: "b", tokens: 64, tier: "device" },
      { worker: "a", tokens: 16, tier: "host" },
    ]);
    expect(JSON.stringify(found)).not.toContain("helpful");
  });

  it("hottest() names the same prefix the same, and prefixes of other roots and models apart", async () => {
    const prefixes = new HotPrefixes(handClock());
    for (const [model, root] of [
      ["m", ""],
      ["m", ""],
      ["n", ""],
      ["n", ""],
      ["m", '["lora",""]'],
      ["m", '["lora",""]'],
    ] as const)
      prefixes.note("r", query(SYSTEM, model, root));
    const { prefixes: found } = await prefixes.hottest(scriptedKnowledge());
    expect(found.map(({ requests }) => requests)).toEqual([2, 2, 2]);
    expect(new Set(found.map(({ hash }) => hash)).size).toBe(2);
  });

  it("note() looks at so many requests a second, and at the beginning of each", async () => {
    const clock = handClock();
    const prefixes = new HotPrefixes(clock);
    for (let i = 0; i < 500; i++) prefixes.note(`r${i}`, query("y".repeat(40_000)));
    expect((await prefixes.hottest(scriptedKnowledge())).looked).toBe(20);
    await clock.pass(1_000);
    prefixes.note("late", query("y".repeat(40_000)));
    const { looked, prefixes: found } = await prefixes.hottest(scriptedKnowledge());
    expect([looked, found[0]!.bytes, found[0]!.longer]).toEqual([21, 16_384, true]);
  });

  it("sharedPrefixes() finds each beginning that two share, once, with all who share it", async () => {
    const piece = fc.constantFrom("a".repeat(70), "b".repeat(70), "c".repeat(70));
    const texts = fc.array(fc.array(piece, { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 12 });
    fc.assert(
      fc.property(texts, (prompts) => {
        const samples = prompts.map((parts, i) => ({ ...query(parts.join("")), id: String(i), atMs: i }));
        const found = sharedPrefixes(samples);
        const names = found.map(({ samples: [one], bytes }) => Buffer.from(one!.prompt.subarray(0, bytes)).toString());
        expect(new Set(names).size).toBe(names.length);
        for (const [i, name] of names.entries()) {
          const sharing = samples.filter(({ prompt }) => Buffer.from(prompt).toString().startsWith(name));
          expect(found[i]!.samples.length).toBe(sharing.length);
        }
        for (const a of samples) {
          for (const b of samples) {
            if (a.id === b.id) continue;
            let n = 0;
            while (n < Math.min(a.prompt.length, b.prompt.length) && a.prompt[n] === b.prompt[n]) n++;
            const common = Buffer.from(a.prompt.subarray(0, n)).toString();
            if (n >= 64) expect(names).toContain(common);
          }
        }
      }),
    );
  });
});
