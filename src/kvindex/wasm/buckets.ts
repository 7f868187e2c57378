import { alloc, free } from "./heap";
import { PLACE_MASK, UNIT } from "./layout";

/**
 * Tables from 64-bit keys to 32-bit values. Extendible hashing: parts of at most MAX_BUCKETS buckets, and a directory of
 * them by the hash's first bits. Growth looks at one part (some 50 µs), never at the whole table: half of its entries go to a
 * new part, to the very buckets where they lie in the old one.
 *
 * A bucket is one cache line with five slots:
 *
 *     [5 keys u64] [5 values u32] [meta u32: bits 0-4 slots in use, 10-14 flags of the slots, 16-31 entries that passed by]
 *
 * An entry lies in its home bucket or, when that is full, in the first one after it with room. Each full bucket on its way counts
 * it, by three bits of its hash: eight counters of two bits, which stay at 3 once they are there. A search ends at a bucket
 * that none of its kind passed by. So a deletion moves nothing, and a search for what is not there seldom leaves its home.
 *
 * A table is [directory, depth, size]. The directory has a part's address (its first bucket's) plus the binary logarithm of its
 * buckets; before the first bucket is a unit: [range, entries it may have, bits | kind << 8, size].
 */
export const BY_KEY: u32 = 0;
/** Entries are found by the place in their value; several may have the same. */
export const BY_PLACE: u32 = 1;

export const SLOTS: u32 = 5;
export const BUCKET: u32 = 64;
export const VALUES: u32 = 40;
export const META: u32 = 60;
/** First bits in it of the flags, and of what `halve()` notes of slots. */
export const FLAGS: u32 = 10;
export const DISPLACED: u32 = 5;
/** Logarithms of the buckets of the smallest part, of one that is halved when it is full, and of the largest. */
export const MIN_LOG: u32 = 1;
export const FULL_LOG: u32 = 11;
export const MAX_LOG: u32 = 15;
/** Beyond this many bits keys share their hash, and halving no longer parts them: the part grows instead. */
export const MAX_BITS: u32 = 20;
/** Parts begin at a multiple of it: a home and the bucket beside it are fetched together. */
const ALIGN: u32 = 2 * BUCKET;
/**
 * A part is full at so many 64ths of its slots, or some more up to SPREAD, by where it lies: names spread evenly, so parts that were
 * full at the same share would all be halved within a short time, and be half empty all together after it.
 */
const FULL: u32 = 40;
const SPREAD: u32 = 20;

export const TABLE_DEPTH: u32 = 4;
export const TABLE_SIZE: u32 = 8;
let secret: u64 = 0;

export function seedTables(seed: u32): void {
  secret = <u64>seed * 0xd6e8feb86659fd93;
}

/** High word: which part. Low word: which bucket of it. */
export function hashKey(key: u64): u64 {
  let h = (key ^ secret) * 0x9e3779b97f4a7c15;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93;
  return h ^ (h >> 32);
}

/** What the directory has: the part and the logarithm of its buckets. */
export function entryOf(table: u32, h: u64): u32 {
  const index = <u32>((h >> 32) >> (32 - <u64>load<u32>(table, TABLE_DEPTH)));
  return load<u32>(load<u32>(table) + 4 * index);
}

export function partOf(entry: u32): u32 {
  return entry & ~(ALIGN - 1);
}

export function logOf(entry: u32): u32 {
  return entry & (ALIGN - 1);
}

/** Bytes of a part's buckets. */
export function spanOf(entry: u32): u32 {
  return BUCKET << logOf(entry);
}

export function isFull(part: u32): bool {
  return load<u32>(part - 4) >= load<u32>(part - 12);
}

export function bits(part: u32): u32 {
  return load<u8>(part - 8);
}

export function setBits(part: u32, to: u32): void {
  store<u8>(part - 8, <u8>to);
}

export function kind(part: u32): u32 {
  return load<u8>(part - 7);
}

export function home(entry: u32, h: u64): u32 {
  return partOf(entry) + BUCKET * (<u32>h >> (32 - logOf(entry)));
}

/** Where a search goes on: first to the bucket beside home, which is fetched along with it, then around the part. */
export function after(entry: u32, at: u32, first: u32): u32 {
  const beside = first ^ BUCKET;
  if (at === first) return beside;
  at = at === beside ? (first & ~(ALIGN - 1)) + ALIGN : at + BUCKET;
  return at >= partOf(entry) + spanOf(entry) ? partOf(entry) : at;
}

/** Where a hash's counter of those that passed by lies in a bucket's meta. */
export function passShift(h: u64): u32 {
  return 16 + 2 * (<u32>h & 7);
}

/** A bucket's meta when one more entry passed by, or one less; `by` is 1 or -1 at the counter's place. */
export function passed(meta: u32, shift: u32, by: i32): u32 {
  return ((meta >> shift) & 3) === 3 ? meta : meta + by * (1 << shift);
}

/** Units of a part: its buckets, the unit before them, and room to align them. */
function unitsOf(log: u32): u32 {
  return (4 << log) + 8;
}

/** Make a part without entries; what the directory shall have of it, or 0 when there is no memory. */
export function newPart(log: u32, ofBits: u32, ofKind: u32): u32 {
  const range = alloc(unitsOf(log));
  if (range === 0) return 0;
  const part = (range + UNIT + ALIGN - 1) & ~(ALIGN - 1);
  store<u32>(part - 16, range);
  const share = FULL + ((((range * 0x9e3779b1) >> 16) * SPREAD) >> 16);
  store<u32>(part - 12, ((SLOTS << log) * share) / 64);
  store<u32>(part - 8, ofBits | (ofKind << 8));
  store<u32>(part - 4, 0);
  for (let at = part; at < part + (BUCKET << log); at += BUCKET) store<u32>(at, 0, META);
  return part | log;
}

export function freePart(entry: u32): void {
  free(load<u32>(partOf(entry) - 16), unitsOf(logOf(entry)));
}

export function hashAt(part: u32, at: u32, i: u32): u64 {
  return kind(part) === BY_KEY ? hashKey(load<u64>(at + 8 * i)) : hashKey(load<u32>(at + 4 * i, VALUES) & PLACE_MASK);
}
