import type { Sequence } from "./sequence.ts";

/** The first `length` tokens of a sequence, kept after its end. */
export interface Content {
  readonly sequence: Sequence;
  readonly length: number;
}

export function contentOf(sequence: Sequence, length: number): Content {
  return { sequence, length };
}

/** Tokens at the start that a content and a sequence (or its first `most` tokens) share; in whole blocks where only keys are known. */
export function commonTokens(
  content: Content,
  sequence: Sequence,
  blockTokens: number,
  most = sequence.length,
): number {
  const a = content.sequence;
  const limit = Math.min(content.length, most);
  if (a === sequence) return limit;
  if (a.lora !== sequence.lora || a.salt !== sequence.salt) return 0;
  if (a.tokens !== undefined && sequence.tokens !== undefined) {
    let i = 0;
    while (i < limit && a.tokens[i] === sequence.tokens[i]) i++;
    return i;
  }
  if (a.keys === undefined || sequence.keys === undefined) return 0;
  const blocks = Math.min(a.keys.length, sequence.keys.length, Math.ceil(limit / blockTokens));
  let i = 0;
  while (i < blocks && a.keys[i] === sequence.keys[i]) i++;
  return Math.min(limit, i * blockTokens);
}
