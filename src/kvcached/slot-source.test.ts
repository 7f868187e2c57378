import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { SlotRules } from "../core/worker.ts";
import { createSlotSource } from "./slot-source.ts";
import one from "./testdata/slots-one.json" with { type: "json" };
import own from "./testdata/slots-own-context.json" with { type: "json" };
import shared from "./testdata/slots-shared-context.json" with { type: "json" };
import { SMOLLM2 } from "./testing/fixtures.ts";
import { createVocabularies } from "./vocabularies.ts";

const { renderer } = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
const utf8 = (text: string) => new TextEncoder().encode(text);
const NOTHING = { bytes: 0, tokens: 0 };
const RULES: SlotRules = { count: 4, minShare: 0.1, storeTokens: 65_536, emptiesFree: true };

function render(...messages: object[]): Uint8Array {
  const prompt = renderer?.render({ messages });
  if (prompt === undefined || !("bytes" in prompt)) throw new Error("not rendered");
  return prompt.bytes;
}

function source(rules: SlotRules = RULES) {
  const slots = createSlotSource(rules);
  const predict = (prompt: Uint8Array) => slots.match("", prompt, NOTHING).tokens;
  const answer = (prompt: Uint8Array, text: string, usage: readonly [number, number, number?]) => {
    const [promptTokens, completionTokens, cachedTokens] = usage;
    const at = { worker: workerId("llama/0"), epoch: 1, model: "m", root: "", predictedTokens: 0 };
    const cached = cachedTokens === undefined ? {} : { cachedTokens };
    slots.observe({ ...at, prompt, answer: utf8(text), promptTokens, completionTokens, ...cached }, undefined);
  };
  return { slots, predict, answer };
}

interface Recorded {
  readonly chat: string;
  readonly system?: string;
  readonly user: string;
  readonly answer: string;
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
}

/** Send a recorded run again: how far each prediction was from what the engine had reported. */
function differences(requests: readonly Recorded[], rules: SlotRules) {
  const { slots, predict, answer } = source(rules);
  const chats = new Map<string, object[]>();
  return requests.map((request) => {
    const messages = chats.get(request.chat) ?? [{ role: "system", content: request.system }];
    messages.push({ role: "user", content: request.user });
    const prompt = render(...messages);
    const predicted = predict(prompt);
    slots.sent("", prompt);
    answer(prompt, request.answer, [request.prompt, request.completion, request.cached]);
    messages.push({ role: "assistant", content: request.answer });
    chats.set(request.chat, messages);
    return { chat: request.chat, by: predicted - request.cached };
  });
}

describe("createSlotSource", () => {
  // New chats were predicted the few tokens that all chats share, and turns of chats with one system prompt what had been
  // overwritten: a llama-server chooses among its slots by shares, and computes on in place.
  for (const [run, rules] of [
    [shared, RULES],
    [own, { ...RULES, emptiesFree: false }],
    [one, { ...RULES, count: 1, emptiesFree: false }],
  ] as const) {
    it(`match() predicts a recorded run of a real llama-server with --parallel ${run.parallel}`, () => {
      const found = differences(run.requests, rules);
      // The first chat to share a system prompt finds it at a place whose token count nobody has told yet.
      const firstToShare = found.find(({ chat }) => chat === "shared 1");
      expect(Math.abs(firstToShare?.by ?? 0)).toBeLessThan(10);
      expect(found.filter((each) => Math.abs(each.by) > 2 && each !== firstToShare)).toEqual([]);
    });
  }

  // After a failed try 35 tokens were predicted of a prompt of 33.
  it("unsent() leaves all as it was", () => {
    const { slots, predict, answer } = source();
    const chat = render({ role: "user", content: "What is the capital of France?" });
    slots.sent("", chat);
    answer(chat, "Paris.", [33, 3, 0]);
    const other = render({ role: "system", content: "Short." }, { role: "user", content: "Name a river." });
    const before = [predict(chat), predict(other)];
    expect(before[0]).toBe(32);
    for (let i = 0; i < 10; i++) {
      slots.sent("", chat);
      slots.unsent("", chat);
      slots.sent("", other);
      slots.unsent("", other);
    }
    expect([predict(chat), predict(other)]).toEqual(before);
  });

  it("unsent() gives the slot back when others started since", () => {
    const { slots, predict, answer } = source({ ...RULES, count: 2 });
    const [a, b] = ["first", "second"].map((word) =>
      render({ role: "system", content: word.repeat(9) }, { role: "user", content: `Something about ${word}` }),
    ) as [Uint8Array, Uint8Array];
    slots.sent("", a);
    slots.sent("", b);
    slots.unsent("", a);
    answer(b, "Yes.", [40, 3, 0]);
    expect(predict(b)).toBe(39);
    expect(predict(a)).toBeLessThan(10);
  });

  // A concurrent request that was only sent cut what an answered turn had recorded.
  it("sent() of concurrent requests takes nothing from an answered turn", () => {
    const { slots, predict, answer } = source();
    const system = {
      role: "system",
      content: "You answer in rhymes, and you never say the word yes, whatever is asked.",
    };
    const turn = (text: string) => render(system, { role: "user", content: text });
    slots.sent("", turn("one"));
    answer(turn("one"), "Done.", [40, 3, 0]);
    const next = render(system, { role: "user", content: "one" }, { role: "assistant", content: "Done." });
    expect(predict(next)).toBe(42);
    const elsewhere = render({ role: "system", content: "Other." }, { role: "user", content: "two" });
    slots.sent("", elsewhere);
    expect(predict(next)).toBe(42);
    slots.unsent("", elsewhere);
    expect(predict(next)).toBe(42);
  });

  it("observe() of a request that was never told as sent counts all the same", () => {
    const { predict, answer } = source();
    const chat = render({ role: "user", content: "Hello" });
    answer(chat, "Hi.", [31, 3]);
    expect(predict(chat)).toBe(30);
  });

  it("clear() forgets everything", () => {
    const { slots, predict, answer } = source();
    const chat = render({ role: "user", content: "Hello" });
    answer(chat, "Hi.", [31, 3]);
    slots.clear();
    expect(predict(chat)).toBe(0);
  });
});
