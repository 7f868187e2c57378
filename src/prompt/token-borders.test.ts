import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createCanonicalEncoder } from "./canonical-encoder.ts";
import { PROBE_CHATS } from "./parity.ts";
import { tokenBorders } from "./token-borders.ts";
import { vocabularyFromTokenizer } from "./tokenizer-json.ts";

const TOKENIZER = JSON.parse(
  readFileSync(new URL("../../test/fixtures/models/smollm2/tokenizer.json", import.meta.url), "utf8"),
) as Record<string, unknown>;
const vocabulary = vocabularyFromTokenizer(TOKENIZER);
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Pre-tokenizers of other families over the same vocabulary, as their tokenizer.json files write them. */
const LLAMA3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const split = (pattern: string) => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  ],
});

describe("tokenBorders", () => {
  it.each([
    ["GPT-2's pattern", TOKENIZER["pre_tokenizer"]],
    ["Llama 3's pattern", split(LLAMA3)],
    ["Qwen 2's pattern", split(LLAMA3.replace("{1,3}", ""))],
  ])("cuts text only where both sides are tokenised as in the whole (%s)", (_, pre_tokenizer) => {
    const encoder = createCanonicalEncoder({ ...TOKENIZER, pre_tokenizer });
    const borders = tokenBorders(encoder, vocabulary);
    let cuts = 0;
    for (const chat of PROBE_CHATS) {
      const said = (chat.request.messages as { content: unknown }[]).map((m) => String(m.content)).join("\n");
      const ids = encoder.encode(`<|im_start|>user\n${said.slice(0, 400)}<|im_end|>\n`);
      for (let i = 1; i < ids.length; i++) {
        if (!borders.between(ids[i - 1]!, ids[i]!)) continue;
        cuts++;
        const right = decoder.decode(vocabulary.decode(ids.slice(i)));
        expect(encoder.encode(right)).toEqual(ids.slice(i));
      }
    }
    expect(cuts).toBeGreaterThan(300);
  });
});
