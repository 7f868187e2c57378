/** The bytes in a buffer of their own when they do not start at a multiple of four. */
export function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 4 === 0 ? bytes : copied(bytes);
}

/** A copy in a buffer of its own. Not `slice()`: a Node Buffer, which is a Uint8Array too, would give a view. */
export function copied(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}

/** The first index in [from, to) where two aligned byte arrays differ, else `to`. Four bytes a step; no allocation a byte. */
export function firstDifference(a: Uint8Array, b: Uint8Array, from: number, to: number): number {
  let at = from;
  while (at < to && at % 4 !== 0) {
    if (a[at] !== b[at]) return at;
    at++;
  }
  const wordEnd = to >>> 2;
  const wordsA = new Uint32Array(a.buffer, a.byteOffset, wordEnd);
  const wordsB = new Uint32Array(b.buffer, b.byteOffset, wordEnd);
  let word = at >>> 2;
  while (word < wordEnd && wordsA[word] === wordsB[word]) word++;
  at = Math.max(at, word * 4);
  while (at < to && a[at] === b[at]) at++;
  return at;
}
