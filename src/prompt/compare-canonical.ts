import type { CanonicalEncoder } from "./canonical-encoder.ts";
import type { TokenBorders } from "./token-borders.ts";
import { utf8Prefix } from "./utf8-prefix.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What a comparison of ids with those of their own text needs. */
export interface CanonicalTools {
  readonly encoder: CanonicalEncoder;
  readonly vocabulary: Pick<Vocabulary, "decode" | "token" | "tokenLength">;
  readonly borders: TokenBorders;
}

/**
 * The first of `ids` that is not what a tokenizer makes of their text; `ids.length` when all are, or when only what follows
 * can tell; undefined when nothing can be said. The text must begin where it can be cut (`TokenBorders`).
 *
 * Of merges alone (BPE) this holds: whatever follows, a token border in the whole is no merge across it, so what stands before
 * it is tokenised as if it stood alone. Only white space at the end waits: patterns look at what is behind it.
 * @param after - the text behind the last whole character of `ids`, where it is known; then nothing waits
 */
export function firstUncanonical(ids: readonly number[], tools: CanonicalTools, after?: string): number | undefined {
  const { encoder, vocabulary } = tools;
  const bytes = vocabulary.decode(ids);
  if (bytes === undefined) return undefined;
  const ends = tokenEnds(ids, vocabulary);
  const valid = utf8Prefix(bytes);
  const known = valid.open ? after : undefined;
  // Without what follows: tokens up to the last end that lies between two characters.
  const whole = known === undefined ? wholeTokens(bytes, ends, valid.length) : ids.length;
  // Bytes that are no text stand in no prompt.
  const good = valid.open ? ids.length : whole;
  if (whole === 0) return good;
  const length = known === undefined ? ends[whole - 1] : valid.length;
  const text = decodeText(bytes.subarray(0, length)) + (known ?? "");
  const canonical = encoder.encode(text);
  // A tokenizer that does not give back its text (unknown characters, a normalizer of its own) proves nothing.
  if (!spells(canonical, text, vocabulary)) return undefined;
  let same = 0;
  while (same < whole && ids[same] === canonical[same]) same++;
  if (same === whole) return good;
  return known === undefined && waits(ids, same, whole, text, ends, tools) ? good : same;
}

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const ENCODER = new TextEncoder();

/** Bytes as text; a byte order mark stays. */
export function decodeText(bytes: Uint8Array): string {
  return DECODER.decode(bytes);
}

/** Can what follows still make tokens `from`.. canonical? */
function waits(
  ids: readonly number[],
  from: number,
  whole: number,
  text: string,
  ends: readonly number[],
  { encoder, borders }: CanonicalTools,
): boolean {
  if (!encoder.mergesOnly) {
    for (let i = from + 1; i < whole; i++) if (borders.between(ids[i - 1]!, ids[i]!)) return false;
    return true;
  }
  const start = from === 0 ? 0 : ends[from - 1]!;
  const blank = /\s*$/u.exec(text)?.[0] ?? "";
  return ENCODER.encode(text).length - ENCODER.encode(blank).length <= start;
}

function tokenEnds(ids: readonly number[], vocabulary: CanonicalTools["vocabulary"]): readonly number[] {
  let end = 0;
  return ids.map((id) => (end += vocabulary.tokenLength(id)));
}

/** How many tokens end at or before `valid`, the last of them between two characters. */
function wholeTokens(bytes: Uint8Array, ends: readonly number[], valid: number): number {
  let count = ends.length;
  while (count > 0) {
    const end = ends[count - 1]!;
    if (end <= valid && (end === bytes.length || (bytes[end]! & 0xc0) !== 0x80)) break;
    count--;
  }
  return count;
}

function spells(ids: readonly number[], text: string, vocabulary: CanonicalTools["vocabulary"]): boolean {
  const decoded = vocabulary.decode(ids);
  const wanted = ENCODER.encode(text);
  if (decoded?.length !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) if (decoded[i] !== wanted[i]) return false;
  return true;
}
