import { UNIT } from "./layout";

/**
 * All memory of an index: it grows without copying (engines reserve the address space), so growth makes no pause; freed ranges
 * join their free neighbours and are used again. Sizes are in units of 16 bytes. Free ranges carry their size and list
 * links inside themselves:
 *
 *     first unit: [units, next, previous, FREE]   …   last unit: [units, -, -, FREE]
 *
 * Any part of an allocated range may be freed alone.
 */

/** In the last word of a free range's first and last unit. No record in use may hold it there. */
const FREE: u32 = 0xffffffff;
/** Ranges of up to this many units have a list for each size; longer ones share a list for each power of two. */
const EXACT: u32 = 64;
const LISTS: u32 = EXACT + 1 + 32;
/** How many ranges of a shared list are tried before the next list. */
const TRIES: u32 = 8;
const PAGE: u32 = 65_536;
/**
 * Pages added at once: a quarter of what there is, and these at least. To the garbage collector each growth is a new large
 * buffer, so there must be few. Pages not written to yet take no memory.
 */
const GROW_PAGES: i32 = 64;

const lists: u32 = <u32>memory.data(4 * 97, 16);
/** First byte never used yet. A unit that is in use always lies before it. */
let top: u32 = ((<u32>__heap_base + 15) & ~15) + 16;
/** Units in use. */
let used: u32 = 0;

/** Units in use. */
export function usedUnits(): u32 {
  return used;
}

/** Exact lists by size, then one a power of two. */
function listOf(units: u32): u32 {
  return units <= EXACT ? units : EXACT + (32 - clz<u32>(units - 1)) - 6;
}

function link(at: u32, units: u32): void {
  const list = lists + 4 * listOf(units);
  const next = load<u32>(list);
  store<u32>(list, at);
  if (next !== 0) store<u32>(next, at, 8);
  const last = at + UNIT * (units - 1);
  store<u32>(last, units);
  store<u32>(last, FREE, 12);
  store<u32>(at, units);
  store<u32>(at, next, 4);
  store<u32>(at, 0, 8);
  store<u32>(at, FREE, 12);
}

function unlink(at: u32, units: u32): void {
  const next = load<u32>(at, 4);
  const previous = load<u32>(at, 8);
  if (next !== 0) store<u32>(next, previous, 8);
  if (previous !== 0) store<u32>(previous, next, 4);
  else store<u32>(lists + 4 * listOf(units), next);
}

function take(at: u32, units: u32): u32 {
  const size = load<u32>(at);
  unlink(at, size);
  store<u32>(at, 0, 12);
  store<u32>(at + UNIT * (size - 1), 0, 12);
  // What lay here before may look like a mark.
  store<u32>(at + UNIT * (units - 1), 0, 12);
  if (size > units) link(at + UNIT * units, size - units);
  return at;
}

function reuse(units: u32): u32 {
  for (let list = listOf(units); list < LISTS; list++) {
    let at: u32 = load<u32>(lists + 4 * list);
    for (let tries: u32 = 0; at !== 0 && tries < TRIES; tries++) {
      if (load<u32>(at) >= units) return take(at, units);
      at = load<u32>(at, 4);
    }
  }
  return 0;
}

function extend(units: u32): u32 {
  const end: u64 = <u64>top + <u64>UNIT * <u64>units;
  const have = <u64>memory.size() * <u64>PAGE;
  if (end > have) {
    const missing = <i32>((end - have + <u64>PAGE - 1) / <u64>PAGE);
    const ahead = max(GROW_PAGES, memory.size() / 4);
    if (memory.grow(max(missing, ahead)) < 0 && memory.grow(missing) < 0) return 0;
  }
  const at = top;
  top = <u32>end;
  return at;
}

/** A range of `units` units, its content undefined but for the marks; 0 when there is no room. */
export function alloc(units: u32): u32 {
  let at = reuse(units);
  if (at === 0) at = extend(units);
  if (at !== 0) used += units;
  return at;
}

/** Give back a range, or any part of one. */
export function free(at: u32, units: u32): void {
  if (units === 0) return;
  used -= units;
  let end = at + UNIT * units;
  // Marks that come to lie inside a joined range are wiped: what is allocated there may keep words that it does not write.
  if (load<u32>(at - 4) === FREE) {
    const before = load<u32>(at - UNIT);
    store<u32>(at - 4, 0);
    at -= UNIT * before;
    unlink(at, before);
    store<u32>(at, 0, 12);
  }
  if (end < top && load<u32>(end, 12) === FREE) {
    const size = load<u32>(end);
    unlink(end, size);
    store<u32>(end, 0, 12);
    store<u32>(end + UNIT * (size - 1), 0, 12);
    end += UNIT * size;
  }
  link(at, <u32>((end - at) / UNIT));
}

/** A zeroed range. */
export function allocZeroed(units: u32): u32 {
  const at = alloc(units);
  if (at !== 0) memory.fill(at, 0, UNIT * units);
  return at;
}

/** Whether an address may be a record's: it is aligned, and lies in memory that was ever used. */
export function isInUse(at: u32): bool {
  return at % UNIT === 0 && at >= <u32>__heap_base && at < top;
}
