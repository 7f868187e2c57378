/** Entries that a part holds room for once it stops growing: a part that is full is halved, which is the longest pause. */
const PART_SLOTS = 4096;
const FIRST_SLOTS = 16;
/** A part is full at three quarters: linear probing stays short. */
const FULL_NUMERATOR = 3;
const FULL_DENOMINATOR = 4;
/** Beyond this many bits keys share their hash, and halving no longer parts them: the part grows instead. */
const MAX_BITS = 24;
/** Words of a slot: key low, key high, value. */
const SLOT_WORDS = 3;

/** One part: an open-addressing table of the keys whose hash begins with the same `bits` bits. */
interface Part {
  slots: Uint32Array;
  /** Slots - 1. */
  mask: number;
  size: number;
  bits: number;
}

/** The hash of a key: its high bits choose the part, its low bits the slot. Names are hashes mostly, but need not be. */
function mix(low: number, high: number): number {
  let x = Math.imul(low ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b);
  x ^= x >>> 15;
  x = Math.imul(x, 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * A map from 64-bit keys to 32-bit values that are not 0, in typed arrays: open addressing, 12 bytes a slot.
 *
 * Extendible hashing: parts of at most 4,096 slots, and a directory of them by the hash's first bits. Growth halves one part
 * (some 20 µs), never the whole map. No allocation but when a part grows.
 */
export class U64Map {
  /** [2^depth] */
  #directory: Part[] = [newPart(FIRST_SLOTS, 0)];
  #depth = 0;
  #size = 0;
  #bytes = FIRST_SLOTS * SLOT_WORDS * 4;

  get size(): number {
    return this.#size;
  }

  /** Memory in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The value, or 0. */
  get(low: number, high: number): number {
    const hash = mix(low, high);
    const { slots, mask } = this.#partOf(hash);
    for (let i = hash & mask; ; i = (i + 1) & mask) {
      const value = slots[3 * i + 2]!;
      if (value === 0 || (slots[3 * i] === low && slots[3 * i + 1] === high)) return value;
    }
  }

  /** Set the value of a key, and say what it was: 0 for none. */
  set(low: number, high: number, value: number): number {
    const hash = mix(low, high);
    const part = this.#partOf(hash);
    const { slots, mask } = part;
    for (let i = hash & mask; ; i = (i + 1) & mask) {
      const before = slots[3 * i + 2]!;
      if (before !== 0 && (slots[3 * i] !== low || slots[3 * i + 1] !== high)) continue;
      slots[3 * i + 2] = value;
      if (before !== 0) return before;
      slots[3 * i] = low;
      slots[3 * i + 1] = high;
      part.size++;
      this.#size++;
      if (part.size * FULL_DENOMINATOR > (mask + 1) * FULL_NUMERATOR) this.#enlarge(part, hash);
      return 0;
    }
  }

  /** Delete a key, and say what its value was: 0 for none. */
  delete(low: number, high: number): number {
    const hash = mix(low, high);
    const part = this.#partOf(hash);
    const { slots, mask } = part;
    for (let i = hash & mask; ; i = (i + 1) & mask) {
      const value = slots[3 * i + 2]!;
      if (value === 0) return 0;
      if (slots[3 * i] !== low || slots[3 * i + 1] !== high) continue;
      closeGap(slots, mask, i);
      part.size--;
      this.#size--;
      return value;
    }
  }

  /**
   * Delete entries of one part for which `gone(value)`, and go on to the next.
   * @param cursor - 0 to begin, then what the call before returned
   * @returns the next cursor, or -1 at the end. Entries moved by growth in between may be missed only if added since
   */
  sweep(cursor: number, gone: (value: number) => boolean): number {
    // The cursor is a hash prefix: parts may be halved between calls, their hash ranges stay.
    const part = this.#partOf(cursor);
    const { slots, mask } = part;
    for (let i = 0; i <= mask; i++) {
      // After a deletion another entry may have moved here: look again.
      while (slots[3 * i + 2] !== 0 && gone(slots[3 * i + 2]!)) {
        closeGap(slots, mask, i);
        part.size--;
        this.#size--;
      }
    }
    const range = 2 ** (32 - part.bits);
    const next = Math.floor(cursor / range) * range + range;
    return next >= 2 ** 32 ? -1 : next;
  }

  #partOf(hash: number): Part {
    // A shift by 32 is a shift by 0 in JavaScript, so depth 0 is its own case.
    return this.#directory[this.#depth === 0 ? 0 : hash >>> (32 - this.#depth)]!;
  }

  #enlarge(part: Part, hash: number): void {
    const slots = part.mask + 1;
    if (slots < PART_SLOTS || part.bits >= MAX_BITS) {
      const old = part.slots;
      part.slots = new Uint32Array(2 * slots * SLOT_WORDS);
      part.mask = 2 * slots - 1;
      this.#bytes += old.byteLength;
      part.size = 0;
      for (let i = 0; i < slots; i++) if (old[3 * i + 2] !== 0) insert(part, old, i);
    } else {
      this.#halve(part, hash);
    }
  }

  #halve(part: Part, hash: number): void {
    if (part.bits === this.#depth) {
      this.#directory = this.#directory.flatMap((one) => [one, one]);
      this.#depth++;
    }
    // Here a part has PART_SLOTS slots exactly: it is larger only at MAX_BITS.
    const zero = newPart(PART_SLOTS, part.bits + 1);
    const one = newPart(PART_SLOTS, part.bits + 1);
    const { slots } = part;
    for (let i = 0; i <= part.mask; i++) {
      if (slots[3 * i + 2] === 0) continue;
      const bit = (mix(slots[3 * i]!, slots[3 * i + 1]!) >>> (31 - part.bits)) & 1;
      insert(bit === 0 ? zero : one, slots, i);
    }
    const width = 2 ** (this.#depth - part.bits);
    const first = this.#depth === 0 ? 0 : Math.floor((hash >>> (32 - this.#depth)) / width) * width;
    this.#directory.fill(zero, first, first + width / 2);
    this.#directory.fill(one, first + width / 2, first + width);
    this.#bytes += PART_SLOTS * SLOT_WORDS * 4;
  }
}

function newPart(slots: number, bits: number): Part {
  return { slots: new Uint32Array(slots * SLOT_WORDS), mask: slots - 1, size: 0, bits };
}

/** Put slot `from` of `source` where it belongs in a part that does not have its key. */
function insert(part: Part, source: Uint32Array, from: number): void {
  const { slots, mask } = part;
  const low = source[3 * from]!;
  const high = source[3 * from + 1]!;
  let i = mix(low, high) & mask;
  while (slots[3 * i + 2] !== 0) i = (i + 1) & mask;
  slots[3 * i] = low;
  slots[3 * i + 1] = high;
  slots[3 * i + 2] = source[3 * from + 2]!;
  part.size++;
}

/** Empty slot `gap` and move back what had to be put behind it: no tombstones. */
function closeGap(slots: Uint32Array, mask: number, gap: number): void {
  for (let i = (gap + 1) & mask; slots[3 * i + 2] !== 0; i = (i + 1) & mask) {
    const home = mix(slots[3 * i]!, slots[3 * i + 1]!) & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    slots[3 * gap] = slots[3 * i]!;
    slots[3 * gap + 1] = slots[3 * i + 1]!;
    slots[3 * gap + 2] = slots[3 * i + 2]!;
    gap = i;
  }
  slots[3 * gap + 2] = 0;
}
