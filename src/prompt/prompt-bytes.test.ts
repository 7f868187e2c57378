import { describe, expect, it } from "vitest";
import { completionPrompt } from "./prompt-bytes.ts";
import { byteVocabulary } from "./vocabulary.ts";

const vocabulary = byteVocabulary();
const bytes = (text: string) => ({ bytes: new TextEncoder().encode(text) });

describe("completionPrompt()", () => {
  it("completionPrompt() takes text, with the bos text that the tokenizer adds", () => {
    expect(completionPrompt("hi é", {})).toEqual(bytes("hi é"));
    expect(completionPrompt(["hi"], { bos: "<s>" })).toEqual(bytes("<s>hi"));
  });

  it("completionPrompt() decodes token ids", () => {
    expect(completionPrompt([104, 105], { vocabulary, bos: "<s>" })).toEqual(bytes("hi"));
    expect(completionPrompt([[104, 105]], { vocabulary })).toEqual(bytes("hi"));
  });

  it("completionPrompt() says why there is no single prompt", () => {
    expect(completionPrompt(["a", "b"], {})).toEqual({ reason: "the request has several prompts" });
    expect(completionPrompt([], {})).toEqual({ reason: "prompt is an empty list" });
    expect(completionPrompt([1, "a"], { vocabulary })).toEqual({
      reason: "prompt mixes token ids with something else",
    });
    expect(completionPrompt([300], { vocabulary })).toEqual({
      reason: "prompt has a token id that the vocabulary lacks",
    });
    expect(completionPrompt([1], {})).toHaveProperty("reason");
    expect(completionPrompt(undefined, {})).toEqual({ reason: "prompt is neither text nor a list" });
  });
});
