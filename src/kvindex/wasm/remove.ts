import { area, CHAIN, ensure, NAMES, setWord, word } from "./areas";
import { forgetCounts, nameAt, release } from "./hold";
import { BLOCK_RUN, PLACE_MASK, TIER_SHIFT, UNIT } from "./layout";
import { BATCH, eraseFound, findSought, isFlagged, keepTouched, seek, setFound } from "./table";
import { runOf } from "./tree";

/** Removing: names are looked up many at once, and neighbours that go together are let go of in one step. */

/** Blocks that go next: `count` from unit `first` on, in these tiers. */
let first: u32 = 0;
let count: u32 = 0;
let tiers: u32 = 0;
let uncounted: u32 = 0;

function flush(worker: u32): void {
  if (count > 0) release(worker, first, count, tiers, uncounted);
  count = 0;
}

/** Put a block to those that go next. */
function add(worker: u32, value: u32, flag: u32): void {
  const place = value & PLACE_MASK;
  const where = value >> TIER_SHIFT;
  if (count > 0 && where === tiers && flag === uncounted) {
    const isBefore = place + 1 === first;
    if ((isBefore || place === first + count) && runOf(place * UNIT) === runOf(<u32>first * UNIT)) {
      if (isBefore) first = place;
      count++;
      return;
    }
  }
  flush(worker);
  first = place;
  count = 1;
  tiers = where;
  uncounted = flag;
}

/** Delete names [from, from + n) from `asked` tiers; what goes is put to CHAIN as [place and tiers, flag]. Returns how many. */
function eraseNames(worker: u32, from: u32, n: u32, asked: u32): u32 {
  let sum: u32 = 0;
  seek(worker, area(NAMES) + 8 * (from + 1), n);
  let found: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const value = findSought(worker, i, nameAt(from + i));
    const gone = value & (asked << TIER_SHIFT);
    if (value === 0 || gone === 0) continue;
    const flag: u32 = isFlagged() ? 1 : 0;
    const left = value & ~gone;
    if (left > PLACE_MASK) setFound(left);
    else eraseFound(worker);
    forgetCounts(worker, gone, left <= PLACE_MASK && flag === 1);
    setWord(CHAIN, 2 * found, (value & PLACE_MASK) | gone);
    setWord(CHAIN, 2 * found + 1, flag);
    found++;
    sum += load<u32>(<u32>(value & PLACE_MASK) * UNIT, BLOCK_RUN);
  }
  keepTouched(sum);
  return found;
}

/**
 * Remove the blocks of `n` names in NAMES (from the second on) from some tiers.
 * @returns how many of them were not held
 */
export function removeNames(worker: u32, n: u32, asked: u32): u32 {
  let unknown: u32 = 0;
  if (!ensure(CHAIN, 8 * BATCH)) return n;
  for (let from: u32 = 0; from < n; from += BATCH) {
    const some = min(BATCH, n - from);
    const found = eraseNames(worker, from, some, asked);
    for (let i: u32 = 0; i < found; i++) add(worker, word(CHAIN, 2 * i), word(CHAIN, 2 * i + 1));
    unknown += some - found;
  }
  flush(worker);
  return unknown;
}
