/**
 * Where in a text its tokens lie, about: words, digits, signs and special tokens (`<|im_start|>`) weigh one each, whatever
 * their bytes. Only shares of it are used, between two places whose token counts are known. Counting bytes instead puts a
 * chat's first special tokens at three times their number.
 */
export interface PieceCount {
  /** Weight of what is whole in the first `byteLength` bytes, in tenths of a piece. */
  upTo(byteLength: number): number;
}

/** Bytes between two entries of the table. */
const STEP = 64;
/** Longest special token that is looked for. */
const MAX_SPECIAL = 40;
/** Letters of a word that are one piece; a longer word is several. */
const WORD_BYTES = 9;
/** A byte outside ASCII: letters of other scripts are two or three bytes, and one or two tokens. */
const OTHER_WEIGHT = 5;
const WEIGHT = 10;

/** Count a text once; it is asked often. */
export function countPieces(bytes: Uint8Array): PieceCount {
  const blocks = Math.floor(bytes.length / STEP) + 1;
  /** Weight of what begins before the block, and where the first thing begins that begins in it. */
  const weights = new Uint32Array(blocks);
  const begins = new Uint32Array(blocks);
  let at = 0;
  let weight = 0;
  for (let block = 0; block < blocks; block++) {
    weights[block] = weight;
    begins[block] = at;
    const end = Math.min(bytes.length, (block + 1) * STEP);
    while (at < end) {
      weight += weightOf(bytes, at);
      at = nextAfter(bytes, at);
    }
  }
  return {
    upTo(byteLength) {
      const end = Math.max(0, Math.min(byteLength, bytes.length));
      const block = Math.floor(end / STEP);
      let sum = weights[block]!;
      // Inside a special token that began in an earlier block.
      if (end < begins[block]!) return sum - WEIGHT;
      for (let i = begins[block]!; i < end; ) {
        const next = nextAfter(bytes, i);
        if (next > end) return sum;
        sum += weightOf(bytes, i);
        i = next;
      }
      // The word that is cut here is not whole.
      return end > 0 && isLetter(bytes[end - 1]) && isLetter(bytes[end]) ? sum - WEIGHT : sum;
    },
  };
}

const LESS = 0x3c;
const GREATER = 0x3e;
const BAR = 0x7c;

/** The next byte, or the one behind a special token that begins here. */
function nextAfter(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== LESS || bytes[at + 1] !== BAR) return at + 1;
  for (let end = at + 3; end < at + MAX_SPECIAL; end++) {
    if (bytes[end] === GREATER && bytes[end - 1] === BAR) return end + 1;
    if (isBlank(bytes[end])) break;
  }
  return at + 1;
}

function weightOf(bytes: Uint8Array, at: number): number {
  const byte = bytes[at]!;
  if (byte >= 0x80) return OTHER_WEIGHT;
  const before = bytes[at - 1];
  if (isLetter(byte)) {
    if (!isLetter(before)) return WEIGHT;
    let start = at;
    while (start > at - 2 * WORD_BYTES && isLetter(bytes[start - 1])) start--;
    return (at - start) % WORD_BYTES === 0 ? WEIGHT : 0;
  }
  if (isDigit(byte)) return WEIGHT;
  // A blank belongs to the word behind it; more of them, and line ends, are one piece together.
  if (isBlank(byte)) return isBlank(before) || (byte === 0x20 && !isBlank(bytes[at + 1])) ? 0 : WEIGHT;
  return before === byte ? 0 : WEIGHT;
}

const isLetter = (byte = 0): boolean => (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
const isDigit = (byte = 0): boolean => byte >= 0x30 && byte <= 0x39;
const isBlank = (byte = 0): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
