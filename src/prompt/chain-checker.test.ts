import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCanonicalEncoder } from "./canonical-encoder.ts";
import { ChainChecker } from "./chain-checker.ts";
import { PROBE_CHATS } from "./parity.ts";
import { vocabularyFromTokenizer } from "./tokenizer-json.ts";

const TOKENIZER = JSON.parse(
  readFileSync(new URL("../../test/fixtures/models/smollm2/tokenizer.json", import.meta.url), "utf8"),
) as unknown;
const encoder = createCanonicalEncoder(TOKENIZER);
const vocabulary = vocabularyFromTokenizer(TOKENIZER);
const LLAMA3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/** The same merges behind another pre-tokenizer. */
const llama3 = createCanonicalEncoder({
  ...(TOKENIZER as object),
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex: LLAMA3 }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    ],
  },
});
/** " under", which is a token, as " understand" is. */
const UNDER = encoder.encode(" under")[0]!;
const B = 4;
const PROMPT = "<|im_start|>user\nSay something, it's late<|im_end|>\n<|im_start|>assistant\n";

/** Store ids as an engine does: the prompt's blocks at once, each later one alone. Names are 1n, 2n, … */
function store(checker: ChainChecker, ids: readonly number[], promptIds: number): ReadonlySet<bigint> {
  const uncounted = new Set<bigint>();
  const prompt = Math.floor(promptIds / B);
  const blocks = Math.floor(ids.length / B);
  for (let from = 0; from < blocks; from = from === 0 ? Math.max(1, prompt) : from + 1) {
    const to = from === 0 ? Math.max(1, prompt) : from + 1;
    const verdict = checker.stored({
      parent: from === 0 ? undefined : BigInt(from),
      names: Array.from({ length: to - from }, (_, i) => BigInt(from + i + 1)),
      tokenIds: Uint32Array.from(ids.slice(from * B, to * B)),
      blockTokens: B,
      certain: false,
    });
    for (const name of verdict.uncounted) uncounted.add(name);
  }
  return uncounted;
}

/** How many leading blocks the engine finds again for a prompt. */
function found(stored: readonly number[], prompt: readonly number[]): number {
  let same = 0;
  while (same < stored.length && stored[same] === prompt[same]) same++;
  return Math.floor(same / B);
}

function counted(blocks: number, uncounted: ReadonlySet<bigint>): number {
  let n = 0;
  while (n < blocks && !uncounted.has(BigInt(n + 1))) n++;
  return n;
}

const text = (ids: readonly number[]) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(vocabulary.decode(ids));
/** Tokens that a hot model may say after each other: pieces of words, spaces, line ends, parts of characters. */
const token = fc.oneof(
  fc.integer({ min: 17, max: 49_151 }),
  fc.constantFrom(
    ..." understand|able| |  |\n|\n\n|'|s|'s|日|本|.|,|1|2| a|the|ing".split("|").map((t) => encoder.encode(t)[0]!),
  ),
);
const sampled = fc.array(token, { minLength: 0, maxLength: 30 });
const written = fc
  .tuple(
    fc.constantFrom(
      ...PROBE_CHATS.map((chat) => String((chat.request.messages as { content: unknown }[])[0]?.content)),
    ),
    fc.nat(40),
  )
  .map(([words, cut]) => encoder.encode(words.slice(0, 40 + cut)));

describe("ChainChecker", () => {
  it.each([
    ["GPT-2's pattern", encoder],
    ["Llama 3's pattern", llama3],
  ])("counts exactly the blocks that the next turn's prompt finds again (%s)", (_, encoder) => {
    const prompt = encoder.encode(PROMPT);
    fc.assert(
      fc.property(fc.array(fc.oneof(sampled, written), { maxLength: 4 }), (parts) => {
        const ids = [...prompt, ...parts.flat()];
        const said = text(parts.flat());
        // Bytes that are no text come back as others, which a comparison of bytes sees by itself.
        fc.pre(!said.includes("\ufffd"));
        const checker = new ChainChecker(encoder, vocabulary);
        const uncounted = new Set(store(checker, ids, prompt.length));
        for (const name of checker.answered(PROMPT + said).uncounted) uncounted.add(name);
        const next = encoder.encode(`${PROMPT}${said}<|im_end|>\n`);
        const blocks = Math.floor(ids.length / B);
        expect(counted(blocks, uncounted)).toBe(found(ids, next));
      }),
      { numRuns: 200, seed: 7 },
    );
  });

  it("counts all blocks of prompts, wherever they are cut", () => {
    for (const chat of PROBE_CHATS) {
      const ids = encoder.encode(PROMPT + JSON.stringify(chat.request.messages));
      expect(store(new ChainChecker(encoder, vocabulary), ids, ids.length).size).toBe(0);
      expect(store(new ChainChecker(encoder, vocabulary), ids, B).size).toBe(0);
    }
  });

  it("lets the rest of the answer decide about a block's last token", () => {
    const ids = [...encoder.encode(PROMPT), ...encoder.encode(" so")];
    while (ids.length % B !== B - 1) ids.push(encoder.encode(" so")[0]!);
    ids.push(UNDER);
    const checker = new ChainChecker(encoder, vocabulary);
    expect(store(checker, ids, B).size).toBe(0);
    const whole = text(ids);
    expect(checker.answered(`${whole} it`).uncounted).toEqual([]);
    const other = new ChainChecker(encoder, vocabulary);
    store(other, ids, B);
    expect(other.answered(`${whole}stand`).uncounted).toEqual([BigInt(ids.length / B)]);
  });

  it("decides the same when the answer is known before the block", () => {
    const ids = [...encoder.encode(PROMPT)];
    while (ids.length % B !== B - 1) ids.push(encoder.encode(" so")[0]!);
    ids.push(UNDER);
    const checker = new ChainChecker(encoder, vocabulary);
    checker.answered(`${text(ids)}stand`);
    expect(store(checker, ids, B)).toEqual(new Set([BigInt(ids.length / B)]));
  });

  it("takes text that is spelled like a special token for one, as the tokenizer will", () => {
    const spelled = ["<", "|", "im", "_", "end", "|", ">"].map((part) => encoder.encode(part)[0]!);
    const ids = [...encoder.encode(PROMPT), ...spelled, ...encoder.encode(" and more words")];
    expect(store(new ChainChecker(encoder, vocabulary), ids, B).size).toBeGreaterThan(0);
  });

  it("says what it cannot tell when the block before is not known", () => {
    const ids = Uint32Array.from(encoder.encode("ing wordlessly").slice(0, B));
    const verdict = new ChainChecker(encoder, vocabulary).stored({
      ...{ parent: 99n, names: [1n], tokenIds: ids, blockTokens: ids.length, certain: false },
    });
    expect(verdict.uncounted).toEqual([]);
    expect(verdict.unknown).toBeGreaterThan(0);
  });

  it("does not look at text that a router sent", () => {
    const ids = Uint32Array.from([5, 6, 7, 8]);
    const chain = { parent: undefined, names: [1n], tokenIds: ids, blockTokens: B, certain: true };
    expect(new ChainChecker(encoder, vocabulary).stored(chain)).toEqual({ uncounted: [], checked: 0, unknown: 0 });
  });

  it("keeps no more blocks than it is told to", () => {
    const checker = new ChainChecker(encoder, vocabulary, 2);
    const ids = encoder.encode(PROMPT);
    expect(store(checker, ids, B).size).toBe(0);
  });
});
