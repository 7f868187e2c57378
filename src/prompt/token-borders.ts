import type { CanonicalEncoder } from "./canonical-encoder.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Tells where a run of tokens can be cut so that the text behind the cut is tokenised as if nothing stood before it. */
export interface TokenBorders {
  /** Is there such a cut before `id`, when `before` stands to its left? */
  between(before: number, id: number): boolean;
  /** The token ends with white space: patterns look at what comes next. */
  endsBlank(id: number): boolean;
}

/**
 * Cuts that hold for every pre-tokenizer in use (GPT-2's pattern and its descendants, SentencePiece): beside a special token;
 * before a space with a letter behind it; between a line end and a letter; and, where the pre-tokenizer keeps words and
 * punctuation apart, before punctuation behind a word. An apostrophe is none: it may belong to the word (`'s`). No cut goes through text that may be
 * the spelling of a special token.
 */
export function tokenBorders(
  encoder: Pick<CanonicalEncoder, "isSpecial" | "specials" | "splitsWords">,
  vocabulary: Pick<Vocabulary, "token">,
): TokenBorders {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** Kind of each token's edges, made when first asked for. */
  const kinds = new Map<number, Edges>();
  // What stands inside the spelling of special tokens.
  const inside = new Set(encoder.specials.flatMap((text) => [...text].slice(1)));
  const edgesOf = (id: number): Edges => {
    let edges = kinds.get(id);
    if (edges === undefined) kinds.set(id, (edges = edgesOfText(textOf(vocabulary.token(id), decoder), inside)));
    return edges;
  };
  return {
    between(before, id) {
      if (encoder.isSpecial(before) || encoder.isSpecial(id)) return true;
      const left = edgesOf(before).last;
      const right = edgesOf(id).first;
      if (right === "spaced word") return left !== "space" && left !== "line end" && left !== "unknown";
      if (right === "letter") return left === "line end";
      return encoder.splitsWords && right === "mark" && (left === "letter" || left === "digit");
    },
    endsBlank(id) {
      const { last } = edgesOf(id);
      return last === "space" || last === "line end";
    },
  };
}

type Edge = "letter" | "digit" | "mark" | "space" | "line end" | "spaced word" | "unknown";

interface Edges {
  readonly first: Edge;
  readonly last: Edge;
}

/** A token's text; undefined when it holds a part of a character. */
function textOf(bytes: Uint8Array | undefined, decoder: TextDecoder): string | undefined {
  try {
    return bytes === undefined || bytes.length === 0 ? undefined : decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function edgesOfText(text: string | undefined, inside: ReadonlySet<string>): Edges {
  if (text === undefined) return { first: "unknown", last: "unknown" };
  const characters = [...text];
  const [begin = "", end = ""] = [characters[0], characters.at(-1)];
  const last = edgeOf(end);
  if (/^ \p{L}/u.test(text)) return { first: inside.has(" ") ? "unknown" : "spaced word", last };
  const first = edgeOf(begin);
  return { first: first === "mark" && inside.has(begin) ? "unknown" : first, last };
}

function edgeOf(character: string): Edge {
  if (character === "\n") return "line end";
  if (/\s/u.test(character)) return "space";
  if (/\p{L}/u.test(character)) return "letter";
  if (/\p{N}/u.test(character)) return "digit";
  // Combining marks belong to words in newer patterns.
  return /\p{M}|['’]|\u200d|\ufe0f/u.test(character) ? "unknown" : "mark";
}
