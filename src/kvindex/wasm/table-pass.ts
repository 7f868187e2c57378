import {
  after,
  BUCKET,
  bits,
  entryOf,
  FLAGS,
  hashAt,
  hashKey,
  home,
  logOf,
  META,
  partOf,
  passShift,
  SLOTS,
  spanOf,
  VALUES,
} from "./buckets";
import { PLACE_MASK } from "./layout";
import { erase } from "./table";

// Passing over all entries: part by part, by a cursor over the hash's high word. Parts may be halved between two steps.

/** What the directory has of the part. */
let passed: u32 = 0;
let passedTable: u32 = 0;
let passedBucket: u32 = 0;
let passedSlot: u32 = 0;

/** Begin with the part at a cursor. */
export function enterPart(table: u32, cursor: u32): void {
  passedTable = table;
  passed = entryOf(table, (<u64>cursor) << 32);
  passedBucket = partOf(passed);
  passedSlot = 0xffffffff;
}

/** Go to the part's next entry; false at its end. Entries may be erased by `erasePassed()` only. */
export function nextEntry(): bool {
  const end = partOf(passed) + spanOf(passed);
  while (passedBucket < end) {
    passedSlot++;
    const rest = passedSlot < SLOTS ? (load<u32>(passedBucket, META) & 31) >> passedSlot : 0;
    if (rest !== 0) {
      passedSlot += ctz<u32>(rest);
      return true;
    }
    passedBucket += BUCKET;
    passedSlot = 0xffffffff;
  }
  return false;
}

export function passedKey(): u64 {
  return load<u64>(passedBucket + 8 * passedSlot);
}

export function passedValue(): u32 {
  return load<u32>(passedBucket + 4 * passedSlot, VALUES);
}

export function isPassedFlagged(): bool {
  return ((load<u32>(passedBucket, META) >> (FLAGS + passedSlot)) & 1) !== 0;
}

export function erasePassed(): void {
  erase(passedTable, passed, hashAt(partOf(passed), passedBucket, passedSlot), passedBucket, passedSlot);
}

/** The cursor of the next part, 0 at the end. */
export function nextCursor(cursor: u32): u32 {
  const ofBits = bits(partOf(passed));
  if (ofBits === 0) return 0;
  const range: u32 = 1 << (32 - ofBits);
  return (cursor & ~(range - 1)) + range;
}

// Entries of one place, in a table BY_PLACE.

let wanted: u32 = 0;
let wantedHash: u64 = 0;
let left: u32 = 0;
let passedHome: u32 = 0;

export function enterPlace(table: u32, spot: u32): void {
  const h = hashKey(spot);
  wanted = spot;
  wantedHash = h;
  passedTable = table;
  passed = entryOf(table, h);
  passedHome = home(passed, h);
  passedBucket = passedHome;
  passedSlot = 0xffffffff;
  left = 1 << logOf(passed);
}

/** Go to the place's next entry; false when there is none. */
export function nextOfPlace(): bool {
  while (left > 0) {
    const meta = load<u32>(passedBucket, META);
    while (++passedSlot < SLOTS) {
      if (((meta >> passedSlot) & 1) !== 0 && (passedValue() & PLACE_MASK) === wanted) return true;
    }
    if (((meta >> passShift(wantedHash)) & 3) === 0) return false;
    passedBucket = after(passed, passedBucket, passedHome);
    passedSlot = 0xffffffff;
    left--;
  }
  return false;
}
