import { CgnError } from "../core/errors.ts";
import { fromByteLevel, fromSentencePiece } from "./byte-level.ts";
import { type Vocabulary, vocabularyOf } from "./vocabulary.ts";

/** Above any real vocabulary (the largest known are near 262,144): a guard against an id that would fill memory. */
const MAX_ID = 4_000_000;

type Json = Readonly<Record<string, unknown>>;

/** A token that the tokenizer takes out of the text before it splits the rest. */
export interface AddedToken {
  readonly id: number;
  readonly text: string;
  /** It swallows white space on its left, on its right. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** It is looked for after normalisation. */
  readonly normalized: boolean;
}

/**
 * The vocabulary of a parsed `tokenizer.json` (Hugging Face tokenizers): BPE and Unigram models, spelled byte-level (GPT-2,
 * Llama 3, Qwen) or SentencePiece (Llama 2, Gemma, Mistral). Added tokens are taken literally.
 * @throws CgnError CAPTURE_INVALID when it has no vocabulary of that form
 */
export function vocabularyFromTokenizer(tokenizer: unknown): Vocabulary {
  const model = isObject(tokenizer) ? tokenizer["model"] : undefined;
  const entries = isObject(model) ? vocabEntries(model["vocab"]) : undefined;
  if (entries === undefined) {
    const message =
      "Cannot read tokenizer.json: it has no model.vocab. Give the tokenizer.json of the model that the engine serves";
    throw new CgnError("CAPTURE_INVALID", message, {});
  }
  const spell = isByteLevel(tokenizer as Json) ? fromByteLevel : fromSentencePiece;
  const tokens: (Uint8Array | undefined)[] = [];
  for (const [text, id] of entries) tokens[checkId(id)] = spell(text);
  const encoder = new TextEncoder();
  for (const { id, text } of addedTokens(tokenizer)) tokens[checkId(id)] = encoder.encode(text);
  // Holes of the sparse array become undefined, which is what an id without a token is.
  return vocabularyOf(Array.from(tokens));
}

/** The `added_tokens` of a parsed `tokenizer.json`; what is malformed is left out. */
export function addedTokens(tokenizer: unknown): readonly AddedToken[] {
  const list = isObject(tokenizer) ? tokenizer["added_tokens"] : undefined;
  const tokens: AddedToken[] = [];
  for (const token of Array.isArray(list) ? list : []) {
    if (!isObject(token) || typeof token["content"] !== "string" || typeof token["id"] !== "number") continue;
    tokens.push({
      id: token["id"],
      text: token["content"],
      lstrip: token["lstrip"] === true,
      rstrip: token["rstrip"] === true,
      normalized: token["normalized"] === true,
    });
  }
  return tokens;
}

/** BPE writes {text: id}, Unigram [[text, score], …] with the place as id. */
function vocabEntries(vocab: unknown): Iterable<readonly [string, number]> | undefined {
  if (Array.isArray(vocab)) return vocab.map((entry, id) => [String((entry as unknown[])[0]), id] as const);
  if (isObject(vocab)) return Object.entries(vocab) as [string, number][];
  return undefined;
}

/** Whether the decoder (or, without one, the pre-tokenizer) is byte-level, alone or inside a sequence. */
function isByteLevel(tokenizer: Json): boolean {
  return [tokenizer["decoder"], tokenizer["pre_tokenizer"]].some((part) => componentTypes(part).includes("ByteLevel"));
}

/** The types of a tokenizer component and of what a `Sequence` of them holds. */
function componentTypes(part: unknown): readonly string[] {
  return componentParts(part).map((one) => String(one["type"]));
}

/** A normalizer, pre-tokenizer or decoder as the flat list of its parts: a `Sequence` is unfolded. */
export function componentParts(part: unknown): readonly Json[] {
  if (!isObject(part)) return [];
  if (part["type"] !== "Sequence") return [part];
  const parts = part["normalizers"] ?? part["pretokenizers"] ?? part["decoders"];
  return Array.isArray(parts) ? parts.flatMap(componentParts) : [];
}

function checkId(id: number): number {
  if (Number.isInteger(id) && id >= 0 && id <= MAX_ID) return id;
  throw new CgnError("CAPTURE_INVALID", `Cannot read tokenizer.json: token id ${id} is not in 0..${MAX_ID}`, {});
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
