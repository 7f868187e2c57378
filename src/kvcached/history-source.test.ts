import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { createHistorySource } from "./history-source.ts";
import { SMOLLM2 } from "./testing/fixtures.ts";
import { createVocabularies } from "./vocabularies.ts";

const { renderer } = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
const utf8 = (text: string) => new TextEncoder().encode(text);

const SYSTEM = { role: "system", content: "You are a helpful assistant." };
const FRANCE = { role: "user", content: "What is the capital of France?" };
const ANSWER = "The capital of France is Paris.";

function render(...messages: object[]): Uint8Array {
  const prompt = renderer?.render({ messages });
  if (prompt === undefined || !("bytes" in prompt)) throw new Error("not rendered");
  return prompt.bytes;
}

function source(entries = 4) {
  const index = createPrefixIndex({ capBytes: 2 ** 24, seed: 1 });
  const worker = workerId("llama/0");
  const slot = index.addWorker(worker, { historyEntries: entries });
  const history = createHistorySource(index, slot);
  const predict = (prompt: Uint8Array) =>
    history.match("", prompt, index.match("", prompt)[0] ?? { bytes: 0, tokens: 0 }).tokens;
  const tell = (prompt: Uint8Array, answer: string, usage: readonly [number, number, number]) => {
    const predictedTokens = predict(prompt);
    history.sent("", prompt);
    const [promptTokens, completionTokens, cachedTokens] = usage;
    const at = { worker, epoch: 1, model: "m", root: "" };
    history.observe(
      { ...at, prompt, answer: utf8(answer), promptTokens, completionTokens, cachedTokens, predictedTokens },
      undefined,
    );
    return predictedTokens;
  };
  return { index, slot, history, predict, tell };
}

describe("createHistorySource", () => {
  it("createHistorySource() predicts what llama-server reported for the same chat again (27 prompt, 8 completion tokens)", () => {
    const { predict, tell } = source();
    const first = render(SYSTEM, FRANCE);
    expect(tell(first, ANSWER, [27, 8, 0])).toBe(0);
    // chat_again_cached.json: cached_tokens 26, since the last prompt token is always computed.
    expect(predict(first)).toBe(26);
  });

  it("createHistorySource() predicts a second turn as the sum of the first one's usage", () => {
    const { predict, tell } = source();
    tell(render(SYSTEM, FRANCE), ANSWER, [27, 8, 0]);
    const second = render(
      SYSTEM,
      FRANCE,
      { role: "assistant", content: ANSWER },
      { role: "user", content: "And of Spain?" },
    );
    // 27 prompt tokens and the 7 that spell the answer; the end-of-turn that was sampled has no KV.
    expect(predict(second)).toBe(34);
  });

  it("sent() counts a prompt at once, so that concurrent requests with the same start meet", () => {
    const { history, predict } = source();
    history.sent("", render(SYSTEM, FRANCE));
    const shared = render(SYSTEM, { role: "user", content: "What is the capital of Peru?" });
    expect(predict(shared)).toBeGreaterThan(15);
    expect(predict(utf8("something else"))).toBe(0);
  });

  // After a failed try 35 tokens were predicted of a prompt of 33: the guess for what was only sent took the place of what
  // the engine had said.
  it("unsent() leaves all as it was, and sent() changes no count that the engine told", () => {
    const { history, predict, tell } = source();
    const first = render(SYSTEM, FRANCE);
    tell(first, ANSWER, [27, 8, 0]);
    const second = render(SYSTEM, FRANCE, { role: "assistant", content: ANSWER }, { role: "user", content: "Spain?" });
    const other = render({ role: "system", content: "Rhyme." }, FRANCE);
    const before = [first, second, other].map(predict);
    for (const prompt of [first, first, second, other]) history.sent("", prompt);
    expect(predict(first)).toBe(26);
    for (const prompt of [first, second, first, other]) history.unsent("", prompt);
    expect([first, second, other].map(predict)).toEqual(before);
  });

  it("observe() believes the engine when it held less", () => {
    const { predict, tell, history } = source();
    const first = render(SYSTEM, FRANCE);
    tell(first, ANSWER, [27, 8, 0]);
    const other = render(SYSTEM, { role: "user", content: "What is the capital of Peru?" });
    expect(predict(other)).toBeGreaterThan(15);
    // The engine had dropped that slot.
    history.observe(
      {
        worker: workerId("llama/0"),
        epoch: 1,
        model: "m",
        root: "",
        prompt: other,
        promptTokens: 27,
        cachedTokens: 0,
        predictedTokens: predict(other),
      },
      undefined,
    );
    expect(predict(first)).toBeLessThan(predict(other) + 1);
    expect(predict(other)).toBe(26);
  });

  it("createHistorySource() keeps only as many prompts as the engine does", () => {
    const { predict, tell } = source(2);
    const chat = (i: number) => render({ role: "system", content: `System ${i}` }, FRANCE);
    for (const i of [1, 2, 3]) tell(chat(i), ANSWER, [30, 8, 0]);
    expect(predict(chat(3))).toBe(29);
    expect(predict(chat(2))).toBe(29);
    expect(predict(chat(1))).toBeLessThan(29);
  });
});
