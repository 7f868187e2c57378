import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { SseSplitter } from "../http/sse.ts";
import { noFacts, readAnswer } from "./answer.ts";
import { AnswerFolder, canFold } from "./fold.ts";

const testdata = (name: string): Buffer => readFileSync(new URL(`testdata/${name}`, import.meta.url));

function chunksOf(sse: Buffer): unknown[] {
  const chunks: unknown[] = [];
  new SseSplitter().push(sse, ({ data }) => {
    if (data !== undefined && data.toString() !== "[DONE]") chunks.push(JSON.parse(data.toString()));
  });
  return chunks;
}

function fold(chunks: readonly unknown[]): Record<string, unknown> | undefined {
  const folder = new AnswerFolder();
  for (const chunk of chunks) folder.add(chunk);
  return folder.result();
}

/** What differs between any two answers to one request. */
function withoutRunFacts(answer: Record<string, unknown> | undefined): unknown {
  const { id, created, timings, ...rest } = answer ?? {};
  return {
    ...rest,
    timings: Object.keys((timings as object | undefined) ?? {}).sort(),
    has: [typeof id, typeof created],
  };
}

describe("AnswerFolder", () => {
  it("result() of llama.cpp's captured stream equals its captured whole answer", () => {
    const whole = JSON.parse(testdata("chat_again_cached.json").toString()).response.body;
    expect(withoutRunFacts(fold(chunksOf(testdata("chat_stream_usage.sse"))))).toEqual(withoutRunFacts(whole));
  });

  it("result() of MLX's captured stream equals its captured whole answer", () => {
    const whole = JSON.parse(testdata("mlx_chat_again.json").toString()).response.body;
    const folded = fold(chunksOf(testdata("mlx_chat_stream_usage.sse")));
    expect(withoutRunFacts(folded)).toEqual(withoutRunFacts({ ...whole, usage: folded?.["usage"] }));
  });

  it("result() of a text completion has the shape of the whole one", () => {
    const whole = JSON.parse(testdata("completions.json").toString()).response.body;
    const folded = fold(chunksOf(testdata("completions_stream.sse")));
    expect(Object.keys(folded ?? {}).sort()).toEqual(Object.keys(whole).sort());
    expect(folded?.["choices"]).toEqual([{ index: 0, text: ", the city of", logprobs: null, finish_reason: "length" }]);
  });

  it("result() joins tool calls by their index", () => {
    const call = (piece: object) => ({ choices: [{ index: 0, finish_reason: null, delta: { tool_calls: [piece] } }] });
    const folded = fold([
      { choices: [{ index: 0, finish_reason: null, delta: { role: "assistant", content: null } }] },
      call({ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } }),
      call({ index: 0, function: { arguments: '{"x":' } }),
      call({ index: 1, id: "b", type: "function", function: { name: "g", arguments: "{}" } }),
      call({ index: 0, function: { arguments: "1}" } }),
      { choices: [{ index: 0, finish_reason: "tool_calls", delta: {} }] },
    ]);
    expect(folded?.["choices"]).toEqual([
      {
        index: 0,
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } },
            { id: "b", type: "function", function: { name: "g", arguments: "{}" } },
          ],
        },
      },
    ]);
  });

  it("result() keeps choices apart and appends log probabilities", () => {
    const piece = (index: number, content: string, end: string | null) => ({
      choices: [{ index, delta: { content }, logprobs: { content: [{ token: content }] }, finish_reason: end }],
    });
    const folded = fold([piece(1, "x", null), piece(0, "a", null), piece(0, "b", "stop"), piece(1, "y", "length")]);
    expect(folded?.["choices"]).toEqual([
      {
        index: 0,
        message: { content: "ab" },
        logprobs: { content: [{ token: "a" }, { token: "b" }] },
        finish_reason: "stop",
      },
      {
        index: 1,
        message: { content: "xy" },
        logprobs: { content: [{ token: "x" }, { token: "y" }] },
        finish_reason: "length",
      },
    ]);
  });

  it("result() is undefined for a stream that was cut", () => {
    expect(fold([])).toBeUndefined();
    expect(fold(chunksOf(testdata("chat_stream_usage.sse")).slice(0, 4))).toBeUndefined();
  });
});

describe("canFold()", () => {
  it("refuses what a stream cannot give back, and takes the rest", () => {
    expect(canFold({ messages: [], n: 2, tools: [], logprobs: true })).toBe(true);
    expect(canFold({ prompt: [1, 2, 3] })).toBe(true);
    expect(canFold({ prompt: ["a", "b"] })).toBe(false);
    expect(canFold({ return_tokens: true })).toBe(false);
    expect(canFold({ stream_options: {} })).toBe(false);
    expect(canFold({ stream: true })).toBe(false);
    // A begun answer came back without its beginning.
    expect(canFold({ messages: [{ role: "user" }, { role: "assistant", content: "Red," }] })).toBe(false);
  });
});

describe("readAnswer()", () => {
  it("reads llama.cpp's figures from the last chunk of a stream without usage", () => {
    const facts = noFacts();
    for (const chunk of chunksOf(testdata("chat_stream.sse"))) readAnswer(chunk, facts);
    expect(facts).toMatchObject({ promptTokens: 27, cachedTokens: 26, completionTokens: 8, finished: true });
    expect(facts.text).toBe("The capital of France is Paris.");
  });

  it("reads a whole answer", () => {
    const facts = noFacts();
    readAnswer(JSON.parse(testdata("chat.json").toString()).response.body, facts);
    expect(facts).toMatchObject({ promptTokens: 27, cachedTokens: 0, completionTokens: 8, promptMs: 57.35 });
  });

  it("adds what Anthropic's usage leaves out of the prompt", () => {
    const facts = noFacts();
    readAnswer({ usage: { input_tokens: 3, cache_read_input_tokens: 24, output_tokens: 8 } }, facts);
    expect(facts).toMatchObject({ promptTokens: 27, cachedTokens: 24, completionTokens: 8 });
  });

  it("ignores figures that are none", () => {
    const facts = noFacts();
    readAnswer({ usage: { prompt_tokens: -1, prompt_tokens_details: null }, timings: [], choices: "x" }, facts);
    expect(facts).toEqual(noFacts());
  });
});
