import { alloc, free } from "./heap";
import { PLACE_MASK, UNIT } from "./layout";

/**
 * Tables from 64-bit keys to 32-bit values. Extendible hashing: parts of at most MAX_BUCKETS buckets, and a directory of
 * them by the hash's first bits. Growth copies one part (some 100 µs), never the whole table.
 *
 * A bucket is one cache line with five slots:
 *
 *     [5 keys u64] [5 values u32] [meta u32: bits 0-4 slots in use, 8-15 entries that passed by, 16-20 flags of the slots]
 *
 * An entry lies in its home bucket or, when that is full, in the first one after it with room; a search ends at a bucket that
 * nothing passed by. So a deletion moves nothing.
 *
 * A table is [directory, depth, size]; a part is known by its first bucket, with a unit before it:
 * [range, entries it may have, buckets | bits << 16 | kind << 24, size].
 */
export const BY_KEY: u32 = 0;
/** Entries are found by the place in their value; several may have the same. */
export const BY_PLACE: u32 = 1;

export const SLOTS: u32 = 5;
export const BUCKET: u32 = 64;
export const VALUES: u32 = 40;
export const META: u32 = 60;
export const MAX_BUCKETS: u32 = 2048;
/** Buckets of a part that was halved: it grows once more before it is halved itself, and is never emptier than 45 %. */
export const HALVED: u32 = 1536;
/** Beyond this many bits keys share their hash, and halving no longer parts them: the part grows instead. */
export const MAX_BITS: u32 = 20;
/**
 * A part is full at so many 64ths of its slots, and up to 15 more, by where it lies: names spread evenly, so parts that were
 * full at the same share would all be halved within a short time, and be half empty all together after it.
 */
const FULL: u32 = 44;

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

export function partOf(table: u32, h: u64): u32 {
  const index = <u32>((h >> 32) >> (32 - <u64>load<u32>(table, TABLE_DEPTH)));
  return load<u32>(load<u32>(table) + 4 * index);
}

export function isFull(part: u32): bool {
  return load<u32>(part - 4) >= load<u32>(part - 12);
}

export function buckets(part: u32): u32 {
  return load<u16>(part - 8);
}

export function bits(part: u32): u32 {
  return load<u8>(part - 6);
}

export function kind(part: u32): u32 {
  return load<u8>(part - 5);
}

export function home(part: u32, h: u64): u32 {
  return part + BUCKET * <u32>((<u64>(<u32>h) * <u64>buckets(part)) >> 32);
}

/** Where a search goes on: first to the bucket beside home, which hardware fetches along with it, then around the part. */
export function after(part: u32, at: u32, first: u32): u32 {
  const beside = first ^ BUCKET;
  if (at === first) return beside;
  at = at === beside ? (first & ~(2 * BUCKET - 1)) + 2 * BUCKET : at + BUCKET;
  return at >= part + BUCKET * buckets(part) ? part : at;
}

/** Units of a part: its buckets, the unit before them, and room to align them. */
function unitsOf(count: u32): u32 {
  return 4 * count + 8;
}

export function newPart(count: u32, depth: u32, ofKind: u32): u32 {
  const range = alloc(unitsOf(count));
  if (range === 0) return 0;
  const part = (range + UNIT + 2 * BUCKET - 1) & ~(2 * BUCKET - 1);
  store<u32>(part - 16, range);
  const share = FULL + ((range * 0x9e3779b1) >> 28);
  store<u32>(part - 12, (count * SLOTS * share) / 64);
  store<u32>(part - 8, count | (depth << 16) | (ofKind << 24));
  store<u32>(part - 4, 0);
  for (let at = part; at < part + BUCKET * count; at += BUCKET) store<u32>(at, 0, META);
  return part;
}

export function freePart(part: u32): void {
  free(load<u32>(part - 16), unitsOf(buckets(part)));
}

export function hashAt(part: u32, at: u32, i: u32): u64 {
  return kind(part) === BY_KEY ? hashKey(load<u64>(at + 8 * i)) : hashKey(load<u32>(at + 4 * i, VALUES) & PLACE_MASK);
}
