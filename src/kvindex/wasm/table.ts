import {
  after,
  BUCKET,
  bits,
  buckets,
  freePart,
  HALVED,
  hashAt,
  hashKey,
  home,
  isFull,
  kind,
  MAX_BITS,
  MAX_BUCKETS,
  META,
  newPart,
  partOf,
  SLOTS,
  TABLE_DEPTH,
  TABLE_SIZE,
  VALUES,
} from "./buckets";
import { alloc, free } from "./heap";
import { PLACE_MASK, UNIT } from "./layout";

/** What the last search or insertion found. */
let bucket: u32 = 0;
let slot: u32 = 0;
let hash: u64 = 0;

/** False when there is no memory. */
export function openTable(table: u32, ofKind: u32): bool {
  const directory = alloc(1);
  if (directory === 0) return false;
  const part = newPart(2, 0, ofKind);
  if (part === 0) {
    free(directory, 1);
    return false;
  }
  memory.fill(directory, 0, UNIT);
  store<u32>(directory, part);
  store<u32>(table, directory);
  store<u32>(table, 0, TABLE_DEPTH);
  store<u32>(table, 0, TABLE_SIZE);
  return true;
}

function directoryUnits(depth: u32): u32 {
  return depth < 2 ? 1 : 1 << (depth - 2);
}

/** Give a table's memory back. */
export function closeTable(table: u32): void {
  const directory = load<u32>(table);
  const depth = load<u32>(table, TABLE_DEPTH);
  for (let i: u32 = 0; i < 1 << depth; ) {
    const part = load<u32>(directory + 4 * i);
    i += 1 << (depth - bits(part));
    freePart(part);
  }
  free(directory, directoryUnits(depth));
  store<u32>(table, 0);
}

export function tableSize(table: u32): u32 {
  return load<u32>(table, TABLE_SIZE);
}

/** Bring an entry's cache line near: several of these run at once. The answer only keeps it from being left out. */
export function touch(table: u32, key: u64): u32 {
  const h = hashKey(key);
  return load<u32>(home(partOf(table, h), h), META);
}

const sink: u32 = <u32>memory.data(4, 4);

/** Use what `touch()` answered, so that it is not left out. */
export function keepTouched(sum: u32): void {
  store<u32>(sink, sum);
}

/** Slots of a bucket that have a key: one bit each. No branch a key: what a bucket holds cannot be foreseen. */
function slotsWith(at: u32, keys: v128, key: u64): u32 {
  const first = i64x2.bitmask(i64x2.eq(v128.load(at), keys));
  const second = i64x2.bitmask(i64x2.eq(v128.load(at, 16), keys));
  return first | (second << 2) | ((load<u64>(at, 32) === key ? 1 : 0) << 4);
}

/** The value of a key, or 0. The slot is remembered for the calls below. */
export function find(table: u32, key: u64): u32 {
  hash = hashKey(key);
  const part = partOf(table, hash);
  const keys = i64x2.splat(key);
  const first = home(part, hash);
  let at = first;
  for (let left = buckets(part); left > 0; left--) {
    const meta = load<u32>(at, META);
    const same = slotsWith(at, keys, key) & meta & 31;
    if (same !== 0) {
      bucket = at;
      slot = ctz<u32>(same);
      return load<u32>(at + 4 * slot, VALUES);
    }
    if ((meta & 0xff00) === 0) return 0;
    at = after(part, at, first);
  }
  return 0;
}

/** Change the value that was just found or put. */
export function setFound(value: u32): void {
  store<u32>(bucket + 4 * slot, value, VALUES);
}

/** The flag of what was just found. */
export function isFlagged(): bool {
  return ((load<u32>(bucket, META) >> (16 + slot)) & 1) !== 0;
}

export function setFlag(on: bool): void {
  const meta = load<u32>(bucket, META);
  const bit: u32 = 1 << (16 + slot);
  store<u32>(bucket, on ? meta | bit : meta & ~bit, META);
}

/** Put an entry where it belongs in a part that has a free slot. */
function place(part: u32, h: u64, key: u64, value: u32, flag: u32): void {
  const first = home(part, h);
  let at = first;
  let meta = load<u32>(at, META);
  while ((meta & 31) === 31) {
    if ((meta & 0xff00) !== 0xff00) store<u32>(at, meta + 0x100, META);
    at = after(part, at, first);
    meta = load<u32>(at, META);
  }
  const i = ctz<u32>(~meta & 31);
  store<u32>(at, meta | (1 << i) | (flag << (16 + i)), META);
  store<u64>(at + 8 * i, key);
  store<u32>(at + 4 * i, value, VALUES);
  store<u32>(part - 4, load<u32>(part - 4) + 1);
  bucket = at;
  slot = i;
}

/** Copy all entries of a part to two others, by the hash's bit `bit` of its high word from above; or to one twice. */
function move(from: u32, zero: u32, one: u32, bit: u32): void {
  const end = from + BUCKET * buckets(from);
  for (let at = from; at < end; at += BUCKET) {
    const meta = load<u32>(at, META);
    for (let used = meta & 31; used !== 0; used &= used - 1) {
      const i = ctz<u32>(used);
      const h = hashAt(from, at, i);
      const to = ((h >> (63 - <u64>bit)) & 1) !== 0 ? one : zero;
      place(to, h, load<u64>(at + 8 * i), load<u32>(at + 4 * i, VALUES), (meta >> (16 + i)) & 1);
    }
  }
}

function point(table: u32, h: u64, ofBits: u32, zero: u32, one: u32): void {
  const depth = load<u32>(table, TABLE_DEPTH);
  const width: u32 = 1 << (depth - ofBits);
  const index = <u32>((h >> 32) >> (32 - <u64>depth)) & ~(width - 1);
  const directory: u32 = load<u32>(table) + 4 * index;
  for (let i: u32 = 0; i < width; i++) store<u32>(directory + 4 * i, <u32>(i < width >> 1 ? zero : one));
}

function deepen(table: u32): bool {
  const depth = load<u32>(table, TABLE_DEPTH);
  const old = load<u32>(table);
  const directory = alloc(directoryUnits(depth + 1));
  if (directory === 0) return false;
  if (depth === 0) memory.fill(directory, 0, UNIT);
  for (let i: u32 = 0; i < 1 << depth; i++) {
    const part = load<u32>(old + 4 * i);
    store<u32>(directory + 8 * i, part);
    store<u32>(directory + 8 * i, part, 4);
  }
  free(old, directoryUnits(depth));
  store<u32>(table, directory);
  store<u32>(table, depth + 1, TABLE_DEPTH);
  return true;
}

function enlarge(table: u32, part: u32, h: u64): void {
  const count = buckets(part);
  const ofBits = bits(part);
  if (count < MAX_BUCKETS || ofBits >= MAX_BITS) {
    if (count >= 0x8000) return;
    const to = newPart(count === HALVED ? MAX_BUCKETS : 2 * count, ofBits, kind(part));
    if (to === 0) return;
    move(part, to, to, 0);
    point(table, h, ofBits, to, to);
  } else {
    if (ofBits === load<u32>(table, TABLE_DEPTH) && !deepen(table)) return;
    const zero = newPart(HALVED, ofBits + 1, kind(part));
    const one = newPart(HALVED, ofBits + 1, kind(part));
    if (zero === 0 || one === 0) {
      if (zero !== 0) freePart(zero);
      if (one !== 0) freePart(one);
      return;
    }
    move(part, zero, one, ofBits);
    point(table, h, ofBits, zero, one);
  }
  freePart(part);
}

/** The part where one more entry of this hash may be put; 0 when there is no memory. */
function partWithRoom(table: u32, h: u64): u32 {
  let part = partOf(table, h);
  // A part that halves unevenly may have to be halved again.
  while (isFull(part)) {
    enlarge(table, part, h);
    const now = partOf(table, h);
    if (now === part) return load<u32>(part - 4) < buckets(part) * SLOTS ? part : 0;
    part = now;
  }
  return part;
}

function insertHashed(table: u32, h: u64, key: u64, value: u32): bool {
  const part = partWithRoom(table, h);
  if (part === 0) return false;
  place(part, h, key, value, 0);
  store<u32>(table, load<u32>(table, TABLE_SIZE) + 1, TABLE_SIZE);
  return true;
}

/** Put a key that `find()` did not just find. False when there is no memory. */
export function insert(table: u32, key: u64, value: u32): bool {
  return insertHashed(table, hashKey(key), key, value);
}

/** Put the key that `find()` just did not find. False when there is no memory. */
export function insertNotFound(table: u32, key: u64, value: u32): bool {
  return insertHashed(table, hash, key, value);
}

/** Put a name by the place in its value. */
export function insertByPlace(table: u32, name: u64, value: u32): bool {
  return insertHashed(table, hashKey(value & PLACE_MASK), name, value);
}

export function erase(table: u32, part: u32, h: u64, from: u32, i: u32): void {
  const first = home(part, h);
  for (let at = first; at !== from; at = after(part, at, first)) {
    const meta = load<u32>(at, META);
    if ((meta & 0xff00) !== 0xff00) store<u32>(at, meta - 0x100, META);
  }
  store<u32>(from, load<u32>(from, META) & ~(0x10001 << i), META);
  store<u32>(part - 4, load<u32>(part - 4) - 1);
  store<u32>(table, load<u32>(table, TABLE_SIZE) - 1, TABLE_SIZE);
}

/** Delete what `find()` just found. */
export function eraseFound(table: u32): void {
  const part = partOf(table, hash);
  erase(table, part, hash, bucket, slot);
  if (load<u32>(part - 4) === 0 && buckets(part) > 4) shrink(table, part);
}

/** An empty part need not be large. */
function shrink(table: u32, part: u32): void {
  const small = newPart(2, bits(part), kind(part));
  if (small === 0) return;
  point(table, hash, bits(part), small, small);
  freePart(part);
}
