/** How much of some bytes is text. */
export interface Utf8Prefix {
  /** Bytes of the longest prefix of whole, well-formed characters. */
  readonly length: number;
  /** What is behind it can still become a character; false when it never can. */
  readonly open: boolean;
}

/** Find the longest prefix that is well-formed UTF-8 (RFC 3629). */
export function utf8Prefix(bytes: Uint8Array): Utf8Prefix {
  let at = 0;
  while (at < bytes.length) {
    const size = sizeOf(bytes[at]!);
    if (size === 0) return { length: at, open: false };
    for (let i = 1; i < size; i++) {
      const byte = bytes[at + i];
      if (byte === undefined) return { length: at, open: true };
      if (byte < lowest(bytes[at]!, i) || byte > highest(bytes[at]!, i)) return { length: at, open: false };
    }
    at += size;
  }
  return { length: at, open: true };
}

/** Bytes of a character by its first byte; 0 when none begins so. */
function sizeOf(first: number): number {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/** Overlong forms and surrogates are no text. */
function lowest(first: number, i: number): number {
  if (i > 1) return 0x80;
  return first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
}

function highest(first: number, i: number): number {
  if (i > 1) return 0xbf;
  return first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
}
