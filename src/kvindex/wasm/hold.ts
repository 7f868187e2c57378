import { area, grow, LAID, MOVED, NAMES, setWord, word } from "./areas";
import { findCover, holdBlocks, releaseBlocks } from "./covers";
import {
  COVER_FROM,
  COVER_TO,
  PLACE_MASK,
  RUN_BLOCKS,
  TIER_SHIFT,
  TIERS,
  UNIT,
  WORKER_IN_TIER,
  WORKER_PLACES,
  WORKER_UNCOUNTED,
} from "./layout";
import { addSpare, hasSpares, useSpare } from "./spares";
import {
  BATCH,
  eraseFound,
  find,
  findSought,
  insertByPlace,
  insertNotFound,
  isFlagged,
  seek,
  setFlag,
  setFound,
} from "./table";
import { isDead, runOf } from "./tree";
import { laneOf } from "./workers";

/** Holding: blocks that are placed are held under their names, by lanes. */

/** Names that stood for another place before: [place and tiers, flag]. They are released once the chain stands. */
let moved: u32 = 0;
/** Whether the block that was placed last counts: the next one inherits it. */
let inherits: bool = true;

/** Begin with a chain below a block that counts, or does not. */
export function beginHolding(counted: bool): void {
  moved = 0;
  inherits = counted;
}

/** Let a worker hold placed blocks of one run under their names, whole stretches at once. Returns how many it holds. */
export function holdNamed(worker: u32, tier: u32, place: u32, first: u32, count: u32, stamp: u32): u32 {
  let done: u32 = 0;
  while (done < count) {
    let some = count - done;
    let counted = inherits;
    // Where some names do not count, those that are known are looked at one by one.
    if (!inherits || load<u32>(worker, WORKER_UNCOUNTED) > 0) {
      some = absentNames(worker, first + done, some);
      if (some === 0) {
        some = 1;
        counted = settleKnown(worker, place + UNIT * done, first + done, stamp);
      }
    }
    const held = holdStretch(worker, tier, place + UNIT * done, first + done, some, counted, stamp);
    done += held;
    if (held < some) return done;
    inherits = counted;
  }
  return done;
}

export function nameAt(i: u32): u64 {
  return load<u64>(area(NAMES) + 8 * i, 8);
}

/** How many names from number `first` on the worker does not have. */
function absentNames(worker: u32, first: u32, count: u32): u32 {
  for (let i: u32 = 0; i < count; i++) if (find(worker, nameAt(first + i)) !== 0) return i;
  return count;
}

/** Whether a block whose name is known counts. Where the place is the same, a mark stays, and one that is inherited is set. */
function settleKnown(worker: u32, place: u32, i: u32, stamp: u32): bool {
  const value = find(worker, nameAt(i));
  if ((value & PLACE_MASK) !== <u32>(place / UNIT)) return inherits;
  if (inherits) return !isFlagged();
  markName(worker, nameAt(i), value, false, stamp);
  return false;
}

/** Hold blocks of one run that count all, or none. Returns how many. */
function holdStretch(worker: u32, tier: u32, place: u32, first: u32, count: u32, counted: bool, stamp: u32): u32 {
  const lane = laneOf(worker, tier, counted ? 0 : 1);
  if (lane < 0) return 0;
  const run = runOf(place);
  const cover = findCover(run, lane);
  const blocks: u32 = load<u32>(run, RUN_BLOCKS);
  const heldFrom: u32 = cover === 0 ? 0 : blocks + UNIT * load<u16>(cover, COVER_FROM);
  const heldTo: u32 = cover === 0 ? 0 : blocks + UNIT * load<u16>(cover, COVER_TO);
  if (!holdBlocks(lane, place, count, stamp)) return 0;
  for (let i: u32 = 0; i < count; i++) {
    if (i % BATCH === 0) seek(worker, area(NAMES) + 8 * (first + i + 1), min(BATCH, count - i));
    const at = place + UNIT * i;
    const before = findSought(worker, i % BATCH, nameAt(first + i));
    const known = setName(worker, nameAt(first + i), before, at, tier, counted);
    if (known === ALREADY) continue;
    const isHeld = at >= heldFrom && at < heldTo;
    if (known === NEW && (!isHeld || addSpare(lane, at))) continue;
    if (known === NEW) unsetName(worker, nameAt(first + i), tier);
    // No memory for the name: hold nothing that no name leads to.
    for (; i < count; i++) {
      const block = place + UNIT * i;
      if (block < heldFrom || block >= heldTo) releaseBlocks(lane, block, 1);
    }
    return <u32>(at - place) / UNIT;
  }
  return count;
}

const NEW: u32 = 0;
const ALREADY: u32 = 1;
const NO_MEMORY: u32 = 2;

/** Let the name that was just looked for, and led to `before`, lead to a place in one more tier. */
function setName(worker: u32, name: u64, before: u32, at: u32, tier: u32, counted: bool): u32 {
  const bit: u32 = 1 << (TIER_SHIFT + tier);
  const value = <u32>(at / UNIT) | bit;
  const places = load<u32>(worker, WORKER_PLACES);
  if (before === 0) {
    if (!insertNotFound(worker, name, value)) return NO_MEMORY;
    if (!counted) flagNew(worker);
  } else if (((before ^ value) & PLACE_MASK) === 0) {
    if ((before & bit) !== 0) return ALREADY;
    setFound(before | bit);
  } else {
    if (!grow(MOVED, 8 * (moved + 1))) return NO_MEMORY;
    setWord(MOVED, 2 * moved, before);
    setWord(MOVED, 2 * moved + 1, isFlagged() ? 1 : 0);
    moved++;
    forgetCounts(worker, before, isFlagged());
    setFound(value);
    setFlag(false);
    if (!counted) flagNew(worker);
  }
  count(worker, tier, 1);
  if (places !== 0) insertByPlace(places, name, value);
  return NEW;
}

/** Undo `setName()` when the block could not be held once more. */
function unsetName(worker: u32, name: u64, tier: u32): void {
  const value = find(worker, name);
  const bit: u32 = 1 << (TIER_SHIFT + tier);
  const left = value & ~bit;
  forgetCounts(worker, bit, left <= PLACE_MASK && isFlagged());
  if (left > PLACE_MASK) setFound(left);
  else eraseFound(worker);
}

function flagNew(worker: u32): void {
  setFlag(true);
  store<u32>(worker, load<u32>(worker, WORKER_UNCOUNTED) + 1, WORKER_UNCOUNTED);
}

/** Count names of a tier. */
function count(worker: u32, tier: u32, by: i32): void {
  const at = worker + 4 * tier;
  store<u32>(at, load<u32>(at, WORKER_IN_TIER) + by, WORKER_IN_TIER);
}

/** Take a name's tiers from the counts; `value` has those that go, and all of them go when `isFlagged` may be taken off too. */
export function forgetCounts(worker: u32, value: u32, flagged: bool): void {
  for (let tier: u32 = 0; tier < TIERS; tier++) if ((value >> (TIER_SHIFT + tier)) & 1) count(worker, tier, -1);
  if (flagged) store<u32>(worker, load<u32>(worker, WORKER_UNCOUNTED) - 1, WORKER_UNCOUNTED);
}

export function releaseMoved(worker: u32): void {
  for (let i: u32 = 0; i < moved; i++) {
    const value = word(MOVED, 2 * i);
    release(worker, value & PLACE_MASK, 1, value >> TIER_SHIFT, word(MOVED, 2 * i + 1));
  }
  moved = 0;
}

/** Let go of `count` blocks of one run from unit `place` on, in some tiers, each once. */
export function release(worker: u32, place: u32, count: u32, tiers: u32, uncounted: u32): void {
  const at: u32 = place * UNIT;
  for (let tier: u32 = 0; tier < TIERS; tier++) {
    if (((tiers >> tier) & 1) === 0) continue;
    const lane = <u32>laneOf(worker, tier, uncounted);
    if (!hasSpares()) releaseBlocks(lane, at, count);
    else
      for (let i: u32 = count; i > 0; i--) {
        const block = at + UNIT * (i - 1);
        if (!useSpare(lane, block)) releaseBlocks(lane, block, 1);
      }
  }
}

/** Say whether the name that was just found, with its value, counts: it moves to the worker's other lanes. */
function markName(worker: u32, name: u64, value: u32, counted: bool, stamp: u32): void {
  if (isFlagged() !== counted) return;
  const at: u32 = <u32>(value & PLACE_MASK) * UNIT;
  for (let tier: u32 = 0; tier < TIERS; tier++) {
    if (((value >> (TIER_SHIFT + tier)) & 1) === 0) continue;
    const lane = laneOf(worker, tier, counted ? 0 : 1);
    if (lane < 0 || !holdOne(lane, at, stamp)) return;
  }
  find(worker, name);
  setFlag(!counted);
  const uncounted = load<u32>(worker, WORKER_UNCOUNTED);
  store<u32>(worker, counted ? uncounted - 1 : uncounted + 1, WORKER_UNCOUNTED);
  release(worker, value & PLACE_MASK, 1, value >> TIER_SHIFT, counted ? 1 : 0);
}

/** Hold one block under one more name. */
function holdOne(lane: u32, at: u32, stamp: u32): bool {
  const run = runOf(at);
  const cover = findCover(run, lane);
  const block = <u32>(at - load<u32>(run, RUN_BLOCKS)) / UNIT;
  const isHeld = cover !== 0 && block >= load<u16>(cover, COVER_FROM) && block < load<u16>(cover, COVER_TO);
  return (!isHeld || addSpare(lane, at)) && holdBlocks(lane, at, 1, stamp);
}

/** Say whether the `count` blocks of NAMES (from the second on) count. */
export function setCounted(worker: u32, count: u32, counted: bool, stamp: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    const value = find(worker, nameAt(i));
    if (value === 0 || isDead(runOf(<u32>(value & PLACE_MASK) * UNIT))) continue;
    markName(worker, nameAt(i), value, counted, stamp);
  }
}

/** Hold blocks at LAID, `count` from number `first` on, under their names in some tiers. Returns how many. */
export function holdLaid(worker: u32, first: u32, count: u32, tiers: u32, counted: bool, stamp: u32): u32 {
  let done: u32 = 0;
  while (done < count) {
    const place = word(LAID, first + done);
    let some = absentNames(worker, first + done, stretchOf(first + done, count - done));
    if (some === 0) {
      some = 1;
      const value = find(worker, nameAt(first + done));
      if ((value & PLACE_MASK) === place / UNIT && isFlagged() === counted)
        markName(worker, nameAt(first + done), value, counted, stamp);
    }
    for (let tier: u32 = 0; tier < TIERS; tier++) {
      if (((tiers >> tier) & 1) === 0) continue;
      if (holdStretch(worker, tier, place, first + done, some, counted, stamp) < some) return done;
    }
    done += some;
  }
  return done;
}

/** How many blocks at LAID from number `first` on lie one after another in one run. */
function stretchOf(first: u32, most: u32): u32 {
  const place = word(LAID, first);
  const run = runOf(place);
  let count: u32 = 1;
  while (count < most && word(LAID, first + count) === place + UNIT * count && runOf(place + UNIT * count) === run)
    count++;
  return count;
}
