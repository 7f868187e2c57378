import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createCanonicalEncoder } from "./canonical-encoder.ts";
import { tokenizerJsonFromGguf } from "./gguf-tokenizer.ts";
import { PROBE_CHATS } from "./parity.ts";

interface Tokenizer {
  readonly pre_tokenizer: unknown;
  readonly added_tokens: readonly { readonly id: number }[];
  readonly model: { readonly vocab: Readonly<Record<string, number>>; readonly merges: readonly (string | string[])[] };
}

const JSON_TOKENIZER = JSON.parse(
  readFileSync(new URL("../../test/fixtures/models/smollm2/tokenizer.json", import.meta.url), "utf8"),
) as Tokenizer;

/** The same tokenizer as a GGUF of it holds it. */
function asGguf() {
  const tokens: string[] = [];
  for (const [text, id] of Object.entries(JSON_TOKENIZER.model.vocab)) tokens[id] = text;
  const added = new Set(JSON_TOKENIZER.added_tokens.map((token) => token.id));
  const types = tokens.map((_, id) => (added.has(id) ? 3 : 1));
  const merges = JSON_TOKENIZER.model.merges.map((pair) => (typeof pair === "string" ? pair : pair.join(" ")));
  return { model: "gpt2", pre: "gpt-2", tokens, types, merges };
}

describe("tokenizerJsonFromGguf", () => {
  it("makes the tokenizer that the model's tokenizer.json describes", () => {
    const made = createCanonicalEncoder(tokenizerJsonFromGguf(asGguf()));
    const wanted = createCanonicalEncoder(JSON_TOKENIZER);
    expect(made.mergesOnly).toBe(true);
    expect(made.splitsWords).toBe(true);
    for (const chat of PROBE_CHATS) {
      const text = `<|im_start|>${JSON.stringify(chat.request.messages)}<|im_end|>\n`;
      expect(made.encode(text)).toEqual(wanted.encode(text));
    }
  });

  it("splits numbers for pre-tokenizers that do", () => {
    const digits = { type: "Digits", individual_digits: true };
    const { pre_tokenizer: plain } = JSON_TOKENIZER;
    const wanted = createCanonicalEncoder({
      ...JSON_TOKENIZER,
      pre_tokenizer: { type: "Sequence", pretokenizers: [digits, plain] },
    });
    const made = createCanonicalEncoder(tokenizerJsonFromGguf({ ...asGguf(), pre: "smollm" }));
    for (const text of ["in 2026, 1,234 times", " \u00bd \u00b2 \u2460 \u0663 a1"]) {
      expect(made.encode(text)).toEqual(wanted.encode(text));
    }
    expect(made.encode("2026")).toHaveLength(4);
  });

  it("says why there is none", () => {
    const gguf = { ...asGguf(), tokens: [], types: [] };
    expect(tokenizerJsonFromGguf({ ...gguf, model: "llama" })).toMatch(/type llama, without merges/);
    expect(tokenizerJsonFromGguf({ ...gguf, pre: "new" })).toMatch(/pre-tokenizer "new" is not known/);
    expect(tokenizerJsonFromGguf({ ...gguf, pre: "qwen2", merges: undefined })).toMatch(/without merges/);
  });
});
