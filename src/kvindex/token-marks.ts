import type { TokenMark } from "./prefix-index.ts";

/** Bytes a token where nothing is known yet: about what English text has in today's vocabularies. */
const TYPICAL_TOKEN_BYTES = 4;

/**
 * Marks in order of bytes, those that contradict an earlier one (fewer tokens for more bytes) left out. Where two marks
 * name the same length the later one in the list holds.
 */
export function cleanMarks(marks: readonly TokenMark[], byteLength: number): readonly TokenMark[] {
  const byLength = new Map<number, number>();
  for (const mark of marks) {
    const inside = mark.byteLength > 0 && mark.byteLength <= byteLength;
    if (inside && mark.tokens >= 0) byLength.set(mark.byteLength, mark.tokens);
  }
  const sorted = [...byLength].sort((a, b) => a[0] - b[0]);
  const clean: TokenMark[] = [];
  for (const [length, tokens] of sorted) {
    if (tokens >= (clean.at(-1)?.tokens ?? 0)) clean.push({ byteLength: length, tokens });
  }
  return clean;
}

/** How many tokens the first `byteLength` bytes are: exact at a mark, interpolated between two, by the last ratio beyond. */
export function tokensAt(marks: readonly TokenMark[], byteLength: number): number {
  let low: TokenMark = { byteLength: 0, tokens: 0 };
  for (const mark of marks) {
    if (mark.byteLength > byteLength) {
      const share = (byteLength - low.byteLength) / (mark.byteLength - low.byteLength);
      return low.tokens + Math.floor(share * (mark.tokens - low.tokens));
    }
    low = mark;
  }
  return low.tokens + Math.floor((byteLength - low.byteLength) / bytesPerToken(low));
}

/** The most bytes whose token count is not above `tokens`: what an engine's report says of where its cache ended. */
export function bytesAt(marks: readonly TokenMark[], tokens: number): number {
  if (tokens <= 0) return 0;
  let low: TokenMark = { byteLength: 0, tokens: 0 };
  for (const mark of marks) {
    if (mark.tokens > tokens) {
      const share = (tokens - low.tokens) / (mark.tokens - low.tokens);
      return low.byteLength + Math.floor(share * (mark.byteLength - low.byteLength));
    }
    low = mark;
  }
  return low.byteLength + Math.floor((tokens - low.tokens) * bytesPerToken(low));
}

function bytesPerToken(mark: TokenMark): number {
  return mark.tokens > 0 && mark.byteLength > 0 ? mark.byteLength / mark.tokens : TYPICAL_TOKEN_BYTES;
}
