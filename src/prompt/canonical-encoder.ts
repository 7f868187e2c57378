import { Tokenizer } from "@huggingface/tokenizers";
import { addedTokens } from "./tokenizer-json.ts";

/** Text to token ids, as an engine tokenises a prompt. */
export interface CanonicalEncoder {
  /** The ids of a text that stands in a prompt: special tokens in it count as such, none are added. */
  encode(text: string): readonly number[];
  /** A token that is taken out of the text before the rest is split. */
  isSpecial(id: number): boolean;
  /** Texts of those. */
  readonly specials: readonly string[];
  /**
   * Merges are all there is (BPE). Then a run of tokens that is not canonical for its own text cannot become so by what
   * follows, white space at its end aside. Unigram models weigh a whole piece at once.
   */
  readonly mergesOnly: boolean;
  /** Letters and punctuation are never in one token, nor do merges cross from the one to the other. */
  readonly splitsWords: boolean;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Make the encoder of a parsed `tokenizer.json`. What it is given is text decoded from ids, so the steps that put something
 * before a text or strip it (SentencePiece's first space) are left out: they were done when the ids were made.
 * @throws Error for a form that the library does not know
 */
export function createCanonicalEncoder(tokenizerJson: unknown): CanonicalEncoder {
  const json = (tokenizerJson ?? {}) as Json;
  const plain = {
    ...json,
    normalizer: withoutEdges(json["normalizer"]),
    pre_tokenizer: splitter(json["pre_tokenizer"]),
  };
  const tokenizer = new Tokenizer({ ...plain, post_processor: null }, {});
  const added = addedTokens(tokenizerJson);
  const ids = new Set(added.map((token) => token.id));
  const model = (json["model"] ?? {}) as Json;
  return {
    encode: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
    isSpecial: (id) => ids.has(id),
    specials: added.map((token) => token.text),
    mergesOnly: model["type"] === "BPE" || (model["type"] === undefined && model["merges"] !== undefined),
    splitsWords: typesOf(json["pre_tokenizer"]).some((type) => type === "ByteLevel" || type === "Split"),
  };
}

/** A normalizer without the steps that look at a text's edges. */
function withoutEdges(part: unknown): unknown {
  const { type, normalizers } = (part ?? {}) as Json;
  if (type === "Prepend" || type === "Strip") return null;
  if (type !== "Sequence" || !Array.isArray(normalizers)) return part ?? null;
  return { type, normalizers: normalizers.map(withoutEdges).filter((each) => each !== null) };
}

/** A pre-tokenizer that puts no space before the text. */
function splitter(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part ?? null;
  const { type, pretokenizers } = part as Json;
  if (type === "Sequence" && Array.isArray(pretokenizers)) {
    return { ...part, pretokenizers: pretokenizers.map(splitter) };
  }
  if (type === "Metaspace") return { ...part, prepend_scheme: "never", add_prefix_space: false };
  // `Digits` means all of Unicode's numbers (tokenizers 0.22, `char::is_numeric`); tokenizers.js 0.2 takes 0 to 9.
  if (type === "Digits") {
    const each = (part as Json)["individual_digits"] === true;
    return { type: "Split", pattern: { Regex: each ? "\\p{N}" : "\\p{N}+" }, behavior: "Isolated", invert: false };
  }
  return type === "ByteLevel" ? { ...part, add_prefix_space: false } : part;
}

function typesOf(part: unknown): readonly string[] {
  const { type, pretokenizers } = (part ?? {}) as Json;
  return type === "Sequence" && Array.isArray(pretokenizers) ? pretokenizers.flatMap(typesOf) : [String(type)];
}
