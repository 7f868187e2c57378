import { describe, expect, it } from "vitest";
import { vocabularyFromGguf } from "./gguf-vocabulary.ts";
import { textNormalizer } from "./text-normalizer.ts";
import { vocabularyFromTokenizer } from "./tokenizer-json.ts";
import { byteVocabulary } from "./vocabulary.ts";

const text = (bytes: Uint8Array | undefined) => (bytes === undefined ? undefined : new TextDecoder().decode(bytes));

const BYTE_LEVEL = {
  decoder: { type: "Sequence", decoders: [{ type: "ByteLevel" }] },
  model: { type: "BPE", vocab: { a: 0, Ġthe: 1, Ċ: 2, "Ã©": 3, âĤ: 4, "¬": 5 } },
  added_tokens: [{ id: 7, content: "<|eot Ġ|>", special: true }],
};
const SENTENCE_PIECE = {
  normalizer: {
    type: "Sequence",
    normalizers: [
      { type: "Prepend", prepend: "▁" },
      { type: "Replace", pattern: { String: " " }, content: "▁" },
    ],
  },
  decoder: { type: "Sequence", decoders: [{ type: "Replace" }, { type: "ByteFallback" }, { type: "Fuse" }] },
  model: {
    type: "Unigram",
    vocab: [
      ["<unk>", 0],
      ["▁the", -1],
      ["<0x0A>", -2],
      ["é", -3],
    ],
  },
  added_tokens: [
    { id: 0, content: "<unk>" },
    { id: 4, content: "</s>" },
  ],
};

describe("vocabularyFromTokenizer()", () => {
  it("vocabularyFromTokenizer() reads byte-level spelling, halves of characters included", () => {
    const vocabulary = vocabularyFromTokenizer(BYTE_LEVEL);
    expect(text(vocabulary.decode([0, 1, 2, 3]))).toBe("a the\né");
    expect(text(vocabulary.decode([4, 5]))).toBe("€");
    expect(text(vocabulary.token(7))).toBe("<|eot Ġ|>");
  });

  it("vocabularyFromTokenizer() reads SentencePiece spelling", () => {
    const vocabulary = vocabularyFromTokenizer(SENTENCE_PIECE);
    expect(text(vocabulary.decode([1, 2, 3, 4]))).toBe(" the\né</s>");
  });

  it("vocabularyFromTokenizer() refuses what has no vocabulary", () => {
    expect(() => vocabularyFromTokenizer({ model: {} })).toThrow(/it has no model.vocab/);
    expect(() => vocabularyFromTokenizer({ model: { vocab: { a: -1 } } })).toThrow(/token id -1/);
  });
});

describe("vocabularyFromGguf()", () => {
  it("vocabularyFromGguf() reads both spellings and takes control tokens literally", () => {
    const gpt2 = vocabularyFromGguf({ model: "gpt2", tokens: ["Ġthe", "<|Ġ|>"], types: [1, 3] });
    expect(text(gpt2.decode([0, 1]))).toBe(" the<|Ġ|>");
    const llama = vocabularyFromGguf({ model: "llama", tokens: ["▁the", "<0x41>", "<s>"], types: [1, 6, 3] });
    expect(text(llama.decode([0, 1, 2]))).toBe(" theA<s>");
    expect(() => vocabularyFromGguf({ model: "bert", tokens: [] })).toThrow(/not supported/);
  });
});

describe("decodeBlocks()", () => {
  it("decodeBlocks() tells where each block ends and grows its buffers", () => {
    const ids = Uint32Array.from({ length: 6000 }, (_, i) => i % 256);
    const blocks = byteVocabulary().decodeBlocks(ids, 16)!;
    expect(blocks.ends.length).toBe(375);
    expect(blocks.ends[374]).toBe(6000);
    expect(blocks.bytes).toEqual(Uint8Array.from(ids));
  });

  it("decodeBlocks() gives nothing for an id outside the vocabulary, specials count", () => {
    const vocabulary = byteVocabulary(["<s>"]);
    expect(vocabulary.decodeBlocks(Uint32Array.of(65, 256), 2)?.bytes).toEqual(Uint8Array.of(65, 60, 115, 62));
    expect(vocabulary.decodeBlocks(Uint32Array.of(65, 257), 2)).toBeUndefined();
    expect(vocabulary.decode([1.5])).toBeUndefined();
  });
});

describe("textNormalizer()", () => {
  it("textNormalizer() is absent where text stays as it is", () => {
    expect(textNormalizer(BYTE_LEVEL)).toBeUndefined();
    expect(textNormalizer(undefined)).toBeUndefined();
  });

  it("textNormalizer() puts SentencePiece's space before each text between special tokens", () => {
    expect(textNormalizer(SENTENCE_PIECE)!("<unk>hi</s>you")).toBe("<unk> hi</s> you");
  });

  it("textNormalizer() composes characters and lets special tokens swallow space", () => {
    const tokenizer = {
      normalizer: { type: "NFC" },
      added_tokens: [
        { id: 1, content: "<|end|>", rstrip: true },
        { id: 2, content: "<|end|>x", lstrip: true },
      ],
    };
    const normalize = textNormalizer(tokenizer)!;
    expect(normalize("e\u0301<|end|>\n a")).toBe("é<|end|>a");
    expect(normalize("a  <|end|>x b")).toBe("a<|end|>x b");
  });
});
