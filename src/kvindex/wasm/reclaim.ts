import { area, DEAD, DEAD_PAGES, grow, RUNS, roomOf, SWEPT, SWEPT_DEAD, setWord, word } from "./areas";
import { usedUnits } from "./heap";
import { forgetCounts } from "./hold";
import {
  COVER_FROM,
  COVER_LANE,
  COVER_TO,
  PLACE_MASK,
  RUN_BLOCKS,
  RUN_CHILDREN,
  RUN_COVER_COUNT,
  RUN_COVERS,
  RUN_LENGTH,
  RUN_ROOM,
  RUN_TOUCHED,
  UNIT,
} from "./layout";
import { forgetGoneSpares, forgetSparesOf } from "./spares";
import { enterPart, erasePassed, isPassedFlagged, nextCursor, nextEntry, passedValue } from "./table-pass";
import { bury, dropDeadCovers, isDead, kill, runCount, runOf } from "./tree";
import { dyingCount, indexCount, isLive, releaseLanes, takeDying, workerAt } from "./workers";

/**
 * Gives memory back bit by bit, with each call a little: what workers that are gone held, and what is evicted to stay below the
 * cap. An evicted run leaves the tree at once; its blocks' memory comes free when a pass over all names has deleted those that
 * lead to it.
 */

/** Runs looked at to find one to evict: the least recently used of these goes. */
const SAMPLE: u32 = 16;
/** Work a call may do besides its own: runs looked at, runs evicted, and name entries for each block it brings. */
const RUNS_PER_CALL: u32 = 32;
const EVICTIONS_PER_CALL: u32 = 256;
const NAMES_PER_BLOCK: u32 = 64;
/** Name entries that one step of a pass looks at, about. */
const PART_ENTRIES: u32 = 2048;
/** What an evicted run takes besides its blocks, about: its record, covers and entry with its parent. */
const RUN_BYTES: u32 = 150;
const PAGE_SHIFT: u32 = 12;

/** Evicted runs that the pass that is under way will free, and those evicted since it began. */
let sweptDead: u32 = 0;
let dead: u32 = 0;
let isSweeping: bool = false;
let sweepIndex: u32 = 0;
let sweepCursor: u32 = 0;
let credit: u32 = 0;
/** Bytes still to evict. */
let toEvict: i64 = 0;
let hand: u32 = 0;
let evicted: u32 = 0;
/** Lanes whose covers are dropped now, and how many runs are still to be looked at, from the last to the first. */
let sweptLanes: u32 = 0;
let isDropping: bool = false;
let dropNext: i32 = 0;

export function usedBytes(): f64 {
  return <f64>usedUnits() * <f64>UNIT;
}

/** Blocks evicted since the last call. */
export function takeEvicted(): u32 {
  const count = evicted;
  evicted = 0;
  return count;
}

/** A stamp that no run has. */
const NOTHING: u32 = 0xffffffff;

/**
 * Do the share of work that a call with so many blocks owes.
 * @param spared - stamp of runs that must not be evicted: those that this very call stored
 */
export function step(blocks: u32, spared: u32 = NOTHING): void {
  if (isDropping || dyingCount() > 0) dropCovers(RUNS_PER_CALL + blocks);
  if (toEvict > 0 && !isSweeping) evict(EVICTIONS_PER_CALL, spared);
  if (!isSweeping && dead === 0) return;
  if (toEvict > 0 && !isSweeping) return;
  credit += blocks * NAMES_PER_BLOCK;
  while (credit >= PART_ENTRIES && sweepNames()) credit -= PART_ENTRIES;
}

/** From now on evict until about so many bytes come free. */
export function evictBytes(bytes: f64): void {
  if (toEvict <= 0 && !isSweeping && dead === 0) toEvict = <i64>bytes;
}

/** Free what is evicted and what is owed to workers that are gone, and evict so many bytes, at once. */
export function evictNow(bytes: f64): void {
  finish();
  if (bytes <= 0) return;
  toEvict = <i64>bytes;
  evict(runCount(), NOTHING);
  toEvict = 0;
  finish();
}

/** Let the least recently used leaves go, at most `most`. */
function evict(most: u32, spared: u32): void {
  let round: u32 = 0;
  for (; round < most && toEvict > 0 && runCount() > 0; round++) {
    const run = oldestOfSample(spared);
    if (run === 0) continue;
    if (!markPages(run) || !grow(DEAD, 4 * (dead + 1))) break;
    toEvict -= load<u32>(run, RUN_ROOM) * UNIT + RUN_BYTES;
    countEvicted(run);
    forgetSparesOf(run);
    kill(run);
    setWord(DEAD, dead++, run);
  }
  if (round < most) toEvict = 0;
}

function oldestOfSample(spared: u32): u32 {
  const count = runCount();
  let oldest: u32 = 0;
  for (let i: u32 = 0; i < min(SAMPLE, count); i++) {
    hand = hand + 1 < count ? hand + 1 : 0;
    const run: u32 = word(RUNS, hand);
    if (load<u32>(run, RUN_CHILDREN) > 0 || load<u32>(run, RUN_TOUCHED) === spared) continue;
    if (oldest === 0 || load<u32>(run, RUN_TOUCHED) < load<u32>(oldest, RUN_TOUCHED)) oldest = run;
  }
  return oldest;
}

function countEvicted(run: u32): void {
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    if (isLive(load<u32>(cover, COVER_LANE))) evicted += load<u16>(cover, COVER_TO) - load<u16>(cover, COVER_FROM);
  }
}

/** Remember the pages where evicted blocks lie: most names lead elsewhere, and need not be followed. */
function markPages(run: u32): bool {
  if (!grow(DEAD_PAGES, 2 * <u32>memory.size())) return false;
  const first = load<u32>(run, RUN_BLOCKS) >> <u32>PAGE_SHIFT;
  const last = (load<u32>(run, RUN_BLOCKS) + UNIT * load<u32>(run, RUN_LENGTH)) >> <u32>PAGE_SHIFT;
  for (let page = first; page <= last; page++) {
    const byte = area(DEAD_PAGES) + page / 8;
    const bit: u32 = 1 << (page & 7);
    store<u8>(byte, load<u8>(byte) | <u8>bit);
  }
  return true;
}

function leadsToDead(value: u32): bool {
  const place: u32 = <u32>(value & PLACE_MASK) * UNIT;
  const page = <u32>(place >> PAGE_SHIFT);
  return ((load<u8>(area(DEAD_PAGES) + page / 8) >> <u8>(page & 7)) & 1) !== 0 && isDead(runOf(place));
}

/** One step of the pass over names; false when there is nothing to do. */
function sweepNames(): bool {
  if (!isSweeping) {
    if (dead === 0 || !grow(SWEPT_DEAD, 4 * dead)) return false;
    memory.copy(area(SWEPT_DEAD), area(DEAD), 4 * dead);
    sweptDead = dead;
    dead = 0;
    sweepIndex = 0;
    sweepCursor = 0;
    isSweeping = true;
  }
  if (sweepIndex >= indexCount()) {
    for (let i: u32 = 0; i < sweptDead; i++) bury(word(SWEPT_DEAD, i));
    memory.fill(area(DEAD_PAGES), 0, roomOf(DEAD_PAGES));
    isSweeping = false;
    return true;
  }
  const worker = workerAt(sweepIndex);
  if (worker !== 0) {
    enterPart(worker, sweepCursor);
    while (nextEntry()) {
      const value = passedValue();
      if (!leadsToDead(value)) continue;
      forgetCounts(worker, value, isPassedFlagged());
      erasePassed();
    }
    sweepCursor = nextCursor(sweepCursor);
  }
  if (worker === 0 || sweepCursor === 0) {
    sweepCursor = 0;
    sweepIndex++;
  }
  return true;
}

/** Do all that is due, at once. */
function finish(): void {
  while (sweepNames());
  while (isDropping || dyingCount() > 0) dropCovers(0x7fffffff);
}

/** Drop covers of lanes that are gone, of some runs. Runs that are freed are replaced by the last, which was looked at. */
function dropCovers(budget: u32): void {
  if (!isDropping) {
    sweptLanes = takeDying(SWEPT);
    if (sweptLanes === 0) return;
    dropNext = <i32>runCount() - 1;
    isDropping = true;
  }
  for (; budget > 0 && dropNext >= 0; budget--) {
    if (dropNext >= <i32>runCount()) dropNext = <i32>runCount() - 1;
    else dropDeadCovers(word(RUNS, dropNext--));
  }
  if (dropNext >= 0) return;
  forgetGoneSpares();
  releaseLanes(SWEPT, sweptLanes);
  isDropping = false;
}
