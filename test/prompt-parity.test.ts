import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createChatRenderer } from "../src/prompt/chat-template.ts";
import { compareParity, PROBE_CHATS } from "../src/prompt/parity.ts";
import { textNormalizer } from "../src/prompt/text-normalizer.ts";
import { vocabularyFromTokenizer } from "../src/prompt/tokenizer-json.ts";

interface Row {
  readonly kind: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly prompt_token_ids: readonly number[];
}

const fixture = (path: string) => readFileSync(new URL(`fixtures/${path}`, import.meta.url), "utf8");
const tokenizer: unknown = JSON.parse(fixture("models/smollm2/tokenizer.json"));
const vocabulary = vocabularyFromTokenizer(tokenizer);
const renderer = createChatRenderer({
  template: fixture("models/smollm2/chat_template.jinja"),
  bosToken: "<|im_start|>",
  eosToken: "<|im_end|>",
  normalize: textNormalizer(tokenizer),
});

describe("rendered bytes and decoded ids on captured vLLM streams", () => {
  it.each(["sha256-noseed-int", "sha256_cbor-seed0-int", "sha256_cbor-seed0-bytes"])(
    "%s: all 16 requests equal",
    (name) => {
      const rows = fixture(`vllm/${name}/requests.jsonl`).trim().split("\n");
      const chats = rows.map((line) => JSON.parse(line) as Row).filter((row) => row.kind === "chat");
      expect(chats.length).toBe(16);
      for (const chat of chats) {
        const rendered = renderer.render(chat.body);
        if ("reason" in rendered) throw new Error(rendered.reason);
        expect(compareParity(rendered.bytes, vocabulary.decode(chat.prompt_token_ids))).toEqual({ equal: true });
      }
    },
  );
});

describe("compareParity()", () => {
  it("compareParity() shows the first difference", () => {
    const encode = (text: string) => new TextEncoder().encode(text);
    expect(compareParity(encode("abc"), encode("abd"))).toEqual({
      equal: false,
      at: 2,
      rendered: "abc",
      decoded: "abd",
    });
    expect(compareParity(encode("abc"), encode("ab"))).toHaveProperty("at", 2);
    expect(compareParity(encode("abc"), undefined)).toHaveProperty("at", 0);
  });
});

describe("PROBE_CHATS", () => {
  it("PROBE_CHATS are some dozens, each with its own name, and a plain template renders them all", () => {
    expect(PROBE_CHATS.length).toBeGreaterThan(36);
    expect(new Set(PROBE_CHATS.map((chat) => chat.name)).size).toBe(PROBE_CHATS.length);
    for (const { request } of PROBE_CHATS) expect(renderer.render(request)).toHaveProperty("bytes");
  });
});
