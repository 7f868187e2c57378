import { area, ensure, SOUGHT } from "./areas";
import {
  after,
  BUCKET,
  bits,
  DISPLACED,
  entryOf,
  FLAGS,
  FULL_LOG,
  freePart,
  hashAt,
  hashKey,
  home,
  isFull,
  kind,
  logOf,
  MAX_BITS,
  MAX_LOG,
  META,
  MIN_LOG,
  newPart,
  partOf,
  passed,
  passShift,
  SLOTS,
  setBits,
  spanOf,
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
  const entry = newPart(MIN_LOG, 0, ofKind);
  if (entry === 0) {
    free(directory, 1);
    return false;
  }
  memory.fill(directory, 0, UNIT);
  store<u32>(directory, entry);
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
    const entry = load<u32>(directory + 4 * i);
    i += 1 << (depth - bits(partOf(entry)));
    freePart(entry);
  }
  free(directory, directoryUnits(depth));
  store<u32>(table, 0);
}

export function tableSize(table: u32): u32 {
  return load<u32>(table, TABLE_SIZE);
}

/** What `seek()` leaves of a key in SOUGHT: its hash and the directory's entry. */
const SOUGHT_HASH: u32 = 0;
const SOUGHT_ENTRY: u32 = 8;
const SOUGHT_FIRST: u32 = 12;
/** Keys that are sought at once. */
export const BATCH: u32 = 128;
/** Parts made and given up by all tables so far: what was sought before is no longer true. */
let changes: u32 = 0;
let soughtChanges: u32 = 0;
const sink: u32 = <u32>memory.data(4, 4);

/** Make room for `seek()`; false when there is no memory. */
export function openSeek(): bool {
  return ensure(SOUGHT, UNIT * BATCH);
}

/**
 * Bring near what `findSought()` will look at for `count` keys (up to BATCH) at an address. Each step does one thing for all
 * keys, so that many waits for memory overlap.
 */
export function seek(table: u32, keys: u32, count: u32): void {
  const sought = area(SOUGHT);
  for (let i: u32 = 0; i < count; i++) {
    const h = hashKey(load<u64>(keys + 8 * i));
    const entry = entryOf(table, h);
    store<u64>(sought + UNIT * i, h, SOUGHT_HASH);
    store<u32>(sought + UNIT * i, entry, SOUGHT_ENTRY);
    store<u32>(sought + UNIT * i, home(entry, h), SOUGHT_FIRST);
  }
  let sum: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    sum += load<u32>(load<u32>(sought + UNIT * i, SOUGHT_FIRST), META);
    sum += load<u32>(partOf(load<u32>(sought + UNIT * i, SOUGHT_ENTRY)) - 4);
  }
  for (let i: u32 = 0; i < count; i++) {
    const first = load<u32>(sought + UNIT * i, SOUGHT_FIRST);
    const isCrowded: u32 = (load<u32>(first, META) & 31) === 31 ? BUCKET : 0;
    sum += load<u32>(first ^ isCrowded, META);
  }
  keepTouched(sum);
  soughtChanges = changes;
}

/** Use what some loads gave, so that they are not left out. */
export function keepTouched(sum: u32): void {
  store<u32>(sink, sum);
}

/** As `find()`, for the key number `i` of those that were sought last. */
export function findSought(table: u32, i: u32, key: u64): u32 {
  const at = area(SOUGHT) + UNIT * i;
  hash = load<u64>(at, SOUGHT_HASH);
  return findHashed(changes === soughtChanges ? load<u32>(at, SOUGHT_ENTRY) : entryOf(table, hash), key);
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
  return findHashed(entryOf(table, hash), key);
}

function findHashed(entry: u32, key: u64): u32 {
  const keys = i64x2.splat(key);
  const first = home(entry, hash);
  const passes = passShift(hash);
  let at = first;
  for (let left: u32 = 1 << logOf(entry); left > 0; left--) {
    const meta = load<u32>(at, META);
    const same = slotsWith(at, keys, key) & meta & 31;
    if (same !== 0) {
      bucket = at;
      slot = ctz<u32>(same);
      return load<u32>(at + 4 * slot, VALUES);
    }
    if (((meta >> passes) & 3) === 0) return 0;
    at = after(entry, at, first);
  }
  return 0;
}

/** Change the value that was just found or put. */
export function setFound(value: u32): void {
  store<u32>(bucket + 4 * slot, value, VALUES);
}

/** The flag of what was just found. */
export function isFlagged(): bool {
  return ((load<u32>(bucket, META) >> (FLAGS + slot)) & 1) !== 0;
}

export function setFlag(on: bool): void {
  const meta = load<u32>(bucket, META);
  const bit: u32 = 1 << (FLAGS + slot);
  store<u32>(bucket, on ? meta | bit : meta & ~bit, META);
}

/** Put an entry where it belongs in a part that has a free slot. */
function place(entry: u32, h: u64, key: u64, value: u32, flag: u32): void {
  const first = home(entry, h);
  const passes = passShift(h);
  let at = first;
  let meta = load<u32>(at, META);
  while ((meta & 31) === 31) {
    store<u32>(at, passed(meta, passes, 1), META);
    at = after(entry, at, first);
    meta = load<u32>(at, META);
  }
  const i = ctz<u32>(~meta & 31);
  store<u32>(at, meta | (1 << i) | (flag << (FLAGS + i)), META);
  store<u64>(at + 8 * i, key);
  store<u32>(at + 4 * i, value, VALUES);
  const part = partOf(entry);
  store<u32>(part - 4, load<u32>(part - 4) + 1);
  bucket = at;
  slot = i;
}

/** Copy all entries of a part to a larger one. */
function copyTo(from: u32, to: u32): void {
  const part = partOf(from);
  for (let at = part; at < part + spanOf(from); at += BUCKET) {
    const meta = load<u32>(at, META);
    for (let used = meta & 31; used !== 0; used &= used - 1) {
      const i = ctz<u32>(used);
      place(to, hashAt(part, at, i), load<u64>(at + 8 * i), load<u32>(at + 4 * i, VALUES), (meta >> (FLAGS + i)) & 1);
    }
  }
}

/**
 * Move the entries of which the hash's bit `bit` (of its high word, from above) is set to an empty part of the same size. Those
 * that are not at home are marked, and put anew afterwards: nothing has passed by any bucket then.
 */
function halve(from: u32, to: u32, bit: u32): void {
  const part = partOf(from);
  const away = partOf(to) - part;
  const end = part + spanOf(from);
  let moved: u32 = 0;
  for (let at = part; at < end; at += BUCKET) {
    const meta = load<u32>(at, META);
    let staying: u32 = 0;
    let going: u32 = 0;
    for (let i: u32 = 0; i < SLOTS; i++) {
      const h = hashAt(part, at, i);
      const isHome: u32 = home(from, h) === at ? 1 : 0;
      const goes = <u32>(h >> (63 - <u64>bit)) & 1;
      going |= (goes & isHome) << i;
      staying |= (~goes & isHome) << i;
    }
    going &= meta;
    const displaced = meta & 31 & ~(going | staying);
    staying = (staying & meta) | displaced;
    v128.store(at + away, v128.load(at));
    v128.store(at + away, v128.load(at, 16), 16);
    v128.store(at + away, v128.load(at, 32), 32);
    v128.store(at + away, i32x4.replace_lane(v128.load(at, 48), 3, meta & (going | (going << FLAGS))), 48);
    store<u32>(at, (meta & (staying | (staying << FLAGS))) | (displaced << DISPLACED), META);
    moved += popcnt<u32>(going);
  }
  store<u32>(part - 4, load<u32>(part - 4) - moved);
  store<u32>(partOf(to) - 4, moved);
  for (let at = part; at < end; at += BUCKET) {
    for (let left = (load<u32>(at, META) >> DISPLACED) & 31; left !== 0; left &= left - 1) {
      const i = ctz<u32>(left);
      const meta = load<u32>(at, META);
      store<u32>(at, meta & ~((1 << i) | (1 << (DISPLACED + i)) | (1 << (FLAGS + i))), META);
      store<u32>(part - 4, load<u32>(part - 4) - 1);
      const h = hashAt(part, at, i);
      const entry = ((h >> (63 - <u64>bit)) & 1) !== 0 ? to : from;
      place(entry, h, load<u64>(at + 8 * i), load<u32>(at + 4 * i, VALUES), (meta >> (FLAGS + i)) & 1);
    }
  }
}

/** Let the directory have other parts where the part of a hash was. */
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
    const entry = load<u32>(old + 4 * i);
    store<u32>(directory + 8 * i, entry);
    store<u32>(directory + 8 * i, entry, 4);
  }
  free(old, directoryUnits(depth));
  store<u32>(table, directory);
  store<u32>(table, depth + 1, TABLE_DEPTH);
  return true;
}

/** Make room in the part of a hash; nothing is done when there is no memory. */
function enlarge(table: u32, entry: u32, h: u64): void {
  changes++;
  const log = logOf(entry);
  const part = partOf(entry);
  const ofBits = bits(part);
  if (log < FULL_LOG || ofBits >= MAX_BITS) {
    if (log >= MAX_LOG) return;
    const to = newPart(log + 1, ofBits, kind(part));
    if (to === 0) return;
    copyTo(entry, to);
    point(table, h, ofBits, to, to);
    freePart(entry);
    return;
  }
  if (ofBits === load<u32>(table, TABLE_DEPTH) && !deepen(table)) return;
  const one = newPart(log, ofBits + 1, kind(part));
  if (one === 0) return;
  halve(entry, one, ofBits);
  point(table, h, ofBits, entry, one);
  setBits(part, ofBits + 1);
}

/** The directory's entry for the part where one more of this hash may be put; 0 when there is no memory. */
function withRoom(table: u32, h: u64): u32 {
  let entry = entryOf(table, h);
  // A part that halves unevenly may have to be halved again.
  while (isFull(partOf(entry))) {
    const ofBits = bits(partOf(entry));
    enlarge(table, entry, h);
    const now = entryOf(table, h);
    if (now === entry && bits(partOf(now)) === ofBits)
      return load<u32>(partOf(entry) - 4) < SLOTS << logOf(entry) ? entry : 0;
    entry = now;
  }
  return entry;
}

function insertHashed(table: u32, h: u64, key: u64, value: u32): bool {
  const entry = withRoom(table, h);
  if (entry === 0) return false;
  place(entry, h, key, value, 0);
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

export function erase(table: u32, entry: u32, h: u64, from: u32, i: u32): void {
  const part = partOf(entry);
  const first = home(entry, h);
  const passes = passShift(h);
  for (let at = first; at !== from; at = after(entry, at, first)) {
    store<u32>(at, passed(load<u32>(at, META), passes, -1), META);
  }
  store<u32>(from, load<u32>(from, META) & ~((1 << i) | (1 << (FLAGS + i))), META);
  store<u32>(part - 4, load<u32>(part - 4) - 1);
  store<u32>(table, load<u32>(table, TABLE_SIZE) - 1, TABLE_SIZE);
}

/** Delete what `find()` just found. */
export function eraseFound(table: u32): void {
  const entry = entryOf(table, hash);
  erase(table, entry, hash, bucket, slot);
  if (load<u32>(partOf(entry) - 4) === 0 && logOf(entry) > 2) shrink(table, entry);
}

/** An empty part need not be large. */
function shrink(table: u32, entry: u32): void {
  changes++;
  const part = partOf(entry);
  const small = newPart(MIN_LOG, bits(part), kind(part));
  if (small === 0) return;
  point(table, hash, bits(part), small, small);
  freePart(entry);
}
