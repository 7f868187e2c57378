import { alloc, free } from "./heap";
import { UNIT } from "./layout";

/**
 * Ranges that are written over and over, and lists that grow. Both have a unit on each side that keeps their content from
 * looking like the heap's marks.
 */

/** Areas: where arguments are put and answers are left. */
export const NAMES: u32 = 0;
export const BYTES: u32 = 1;
export const ENDS: u32 = 2;
export const HASHES: u32 = 3;
export const ANSWERS: u32 = 4;
export const SETS: u32 = 5;
export const TIERS_SEEN: u32 = 6;
export const BEST: u32 = 7;
export const STACK: u32 = 8;
export const CHUNK: u32 = 9;
/** Lists. */
export const RUNS: u32 = 10;
export const LANE_INFO: u32 = 11;
export const FREE_LANES: u32 = 12;
export const DYING: u32 = 13;
export const SWEPT: u32 = 14;
export const WORKERS: u32 = 15;
export const DEAD: u32 = 16;
export const MOVED: u32 = 17;
export const ROOTS: u32 = 18;
export const FREE_ROOTS: u32 = 19;
export const FRONTS: u32 = 20;
export const CHAIN: u32 = 21;
export const FOUND: u32 = 22;
export const STEPS: u32 = 23;
export const DEAD_PAGES: u32 = 24;
export const SWEPT_DEAD: u32 = 25;
export const MATCH_ENDS: u32 = 26;
export const CHUNK_ROOTS: u32 = 27;
export const LAID: u32 = 28;
export const SOUGHT: u32 = 29;

/** By area: address and bytes. */
const areas: u32 = <u32>memory.data(8 * 30, 16);

/** Address of an area; 0 before it has room. */
export function area(id: u32): u32 {
  return load<u32>(areas + 8 * id);
}

function resize(id: u32, bytes: u32, keep: u32): bool {
  const size: u32 = bytes <= 512 ? 512 : 1 << (32 - clz<u32>(bytes - 1));
  const units = size / UNIT;
  const range = alloc(units + 2);
  if (range === 0) return false;
  store<u32>(range, 0, 12);
  store<u32>(range + UNIT * (units + 1), 0, 12);
  const old = load<u32>(areas + 8 * id);
  const oldSize = load<u32>(areas + 8 * id, 4);
  memory.fill(range + UNIT + keep, 0, size - keep);
  if (old !== 0) {
    if (keep > 0) memory.copy(range + UNIT, old, keep);
    free(old - UNIT, oldSize / UNIT + 2);
  }
  store<u32>(areas + 8 * id, range + UNIT);
  store<u32>(areas + 8 * id, size, 4);
  return true;
}

/** Make room for so many bytes; the content may be lost. False when there is no memory. */
export function ensure(id: u32, bytes: u32): bool {
  return bytes <= load<u32>(areas + 8 * id, 4) || resize(id, bytes, 0);
}

/** Bytes that an area has room for. */
export function roomOf(id: u32): u32 {
  return load<u32>(areas + 8 * id, 4);
}

/** Make room for so many bytes; what is there stays, what is new is zero. False when there is no memory. */
export function grow(id: u32, bytes: u32): bool {
  const size = load<u32>(areas + 8 * id, 4);
  return bytes <= size || resize(id, bytes, size);
}

/** Word `index` of a list. */
export function word(id: u32, index: u32): u32 {
  return load<u32>(area(id) + 4 * index);
}

export function setWord(id: u32, index: u32, value: u32): void {
  store<u32>(area(id) + 4 * index, value);
}
