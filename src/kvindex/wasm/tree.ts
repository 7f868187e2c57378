import { FREE_ROOTS, FRONTS, grow, ROOTS, RUNS, setWord, word } from "./areas";
import { BY_KEY } from "./buckets";
import { cutDigests, freeDigests, moveDigests } from "./digests";
import { alloc, allocZeroed, free, isInUse } from "./heap";
import { joinWithChild } from "./join";
import {
  BLOCK_BYTES,
  BLOCK_HASH,
  BLOCK_RUN,
  COVER_FROM,
  COVER_LANE,
  COVER_LIMIT,
  COVER_TO,
  FLAG_DEAD,
  FLAG_ROOT,
  NO_LIMIT,
  RUN_BLOCKS,
  RUN_CHILD,
  RUN_CHILDREN,
  RUN_COVER_COUNT,
  RUN_COVER_ROOM,
  RUN_COVERS,
  RUN_FLAGS,
  RUN_INDEX,
  RUN_LENGTH,
  RUN_LENGTHS,
  RUN_PARENT,
  RUN_ROOM,
  RUN_ROOT,
  RUN_TOUCHED,
  RUN_UNITS,
  UNIT,
} from "./layout";
import { countLength, newLength, uncountLength } from "./lengths";
import { eraseFound, find, insert, openTable, setFound } from "./table";
import { isLive } from "./workers";

/**
 * The tree of runs: making, joining, splitting and freeing them. It knows no workers, names or bytes.
 * A root is known by a number, which the caller has for its key.
 */

/** Children of all runs, by parent and first block. */
const children: u32 = <u32>memory.data(16, 16);
/** Runs but roots and dead ones, in no order: the list RUNS. */
let runs: u32 = 0;
/** Numbers ever given to roots, and those free again. */
let rootNumbers: u32 = 0;
let freeRoots: u32 = 0;
/** Fronts that splits made since a save began; kept only while there is one. */
let fronts: u32 = 0;
let keepsFronts: bool = false;
/** Room to append that an idle run may keep, in blocks. */
const MAX_IDLE_ROOM: u32 = 64;

export function openTree(): bool {
  return openTable(children, BY_KEY);
}

export function runCount(): u32 {
  return runs;
}

export function runOf(place: u32): u32 {
  return load<u32>(place, BLOCK_RUN);
}

/** The run that a place lies in, if it still does: what it was may have been freed. */
export function liveRunAt(place: u32): u32 {
  const run = load<u32>(place, BLOCK_RUN);
  if (!isInUse(run)) return 0;
  const index = load<u32>(run, RUN_INDEX);
  if (index >= runs || word(RUNS, index) !== run) return 0;
  const first = load<u32>(run, RUN_BLOCKS);
  return place >= first && place < first + UNIT * load<u32>(run, RUN_LENGTH) ? run : 0;
}

export function isDead(run: u32): bool {
  return (load<u32>(run, RUN_FLAGS) & FLAG_DEAD) !== 0;
}

/** The run of a root's number; 0 when it is gone or there is none. */
export function rootRun(root: u32): u32 {
  return root < rootNumbers ? word(ROOTS, root) : 0;
}

/** A new root's number; -1 when there is no memory. It is free again when the root is empty. */
export function newRoot(): i32 {
  const number = freeRoots > 0 ? word(FREE_ROOTS, freeRoots - 1) : rootNumbers;
  const bytes = 4 * (rootNumbers + 1);
  if (!grow(ROOTS, bytes) || !grow(FREE_ROOTS, bytes)) return -1;
  const run = newRecord(0, 0, 0, 0, FLAG_ROOT);
  if (run === 0) return -1;
  if (number === rootNumbers) rootNumbers++;
  else freeRoots--;
  store<u32>(run, number, RUN_ROOT);
  setWord(ROOTS, number, run);
  return number;
}

function newRecord(blocks: u32, length: u32, room: u32, parent: u32, flags: u32): u32 {
  const run = allocZeroed(RUN_UNITS);
  if (run === 0) return 0;
  store<u32>(run, blocks, RUN_BLOCKS);
  store<u32>(run, length, RUN_LENGTH);
  store<u32>(run, room, RUN_ROOM);
  store<u32>(run, parent, RUN_PARENT);
  store<u32>(run, flags, RUN_FLAGS);
  return run;
}

/** Make a run of `length` blocks at `blocks`, with room for `room`, that nothing leads to yet; 0 when there is no memory. */
export function newRun(blocks: u32, length: u32, room: u32, parent: u32): u32 {
  if (!grow(RUNS, 4 * (runs + 1))) return 0;
  const run = newRecord(blocks, length, room, parent, 0);
  if (run === 0) return 0;
  store<u32>(run, runs, RUN_INDEX);
  setWord(RUNS, runs++, run);
  return run;
}

function unlist(run: u32): void {
  const index = load<u32>(run, RUN_INDEX);
  const last = word(RUNS, --runs);
  setWord(RUNS, index, last);
  store<u32>(last, index, RUN_INDEX);
}

function freeRecord(run: u32): void {
  unlist(run);
  freeDigests(run);
  free(load<u32>(run, RUN_COVERS), load<u32>(run, RUN_COVER_ROOM));
  free(run, RUN_UNITS);
}

function freeBlocks(run: u32): void {
  free(load<u32>(run, RUN_BLOCKS), load<u32>(run, RUN_ROOM));
}

/** Undo `newRun()`: nothing leads to the run yet. Its blocks' memory goes too. */
export function discard(run: u32): void {
  freeBlocks(run);
  freeRecord(run);
}

function childKey(run: u32, hash: u64, bytes: u32): u64 {
  return (hash + <u64>bytes * 0x9e3779b97f4a7c15) ^ (<u64>run * 0xd1342543de82ef95);
}

function keyOf(run: u32, block: u32): u64 {
  return childKey(run, load<u64>(block, BLOCK_HASH), load<u32>(block, BLOCK_BYTES));
}

function isChild(child: u32, run: u32, hash: u64, bytes: u32): bool {
  const first: u32 = load<u32>(child, RUN_BLOCKS);
  return (
    load<u64>(first, BLOCK_HASH) === hash &&
    load<u32>(first, BLOCK_BYTES) === bytes &&
    load<u32>(child, RUN_PARENT) === run
  );
}

/** The child of `run` whose first block has this hash and length; 0 when there is none. */
export function findChild(run: u32, hash: u64, bytes: u32): u32 {
  const likely: u32 = load<u32>(run, RUN_CHILD);
  if (likely !== 0 && isChild(likely, run, hash, bytes)) return likely;
  if (load<u32>(run, RUN_CHILDREN) < (likely !== 0 ? <u32>2 : <u32>1)) return 0;
  const child: u32 = find(children, childKey(run, hash, bytes));
  // 64 bits can meet by chance: then the other one is not it.
  return child !== 0 && isChild(child, run, hash, bytes) ? child : 0;
}

/**
 * The child of `run` that may have a first block of this hash and length, the only one that may; 0 when there is none. For those
 * who look at its blocks anyway: this does not wait for them.
 */
export function maybeChild(run: u32, hash: u64, bytes: u32): u32 {
  const likely: u32 = load<u32>(run, RUN_CHILD);
  if (likely !== 0 && load<u32>(run, RUN_CHILDREN) === 1) return likely;
  const child: u32 = find(children, childKey(run, hash, bytes));
  return child !== 0 && load<u32>(child, RUN_PARENT) === run ? child : 0;
}

/** Make `child` (its first block written) a child of its parent. False, and nothing done, when there is no memory. */
export function attach(child: u32): bool {
  const parent: u32 = load<u32>(child, RUN_PARENT);
  const first: u32 = load<u32>(child, RUN_BLOCKS);
  const key = keyOf(parent, first);
  if (find(children, key) !== 0 || !countLength(parent, load<u32>(first, BLOCK_BYTES))) return false;
  if (!insert(children, key, child)) {
    uncountLength(parent, load<u32>(first, BLOCK_BYTES));
    return false;
  }
  store<u32>(parent, load<u32>(parent, RUN_CHILDREN) + 1, RUN_CHILDREN);
  store<u32>(parent, child, RUN_CHILD);
  if ((load<u32>(parent, RUN_FLAGS) & FLAG_ROOT) === 0) giveBackRoom(parent);
  return true;
}

function detach(child: u32): void {
  const parent: u32 = load<u32>(child, RUN_PARENT);
  const first: u32 = load<u32>(child, RUN_BLOCKS);
  if (find(children, keyOf(parent, first)) === child) eraseFound(children);
  store<u32>(parent, load<u32>(parent, RUN_CHILDREN) - 1, RUN_CHILDREN);
  if (load<u32>(parent, RUN_CHILD) === child) store<u32>(parent, 0, RUN_CHILD);
  uncountLength(parent, load<u32>(first, BLOCK_BYTES));
}

/** A run with children ends where it ends: what it has room for beyond is given back. */
function giveBackRoom(run: u32): void {
  const length = load<u32>(run, RUN_LENGTH);
  const room = load<u32>(run, RUN_ROOM);
  store<u32>(run, length, RUN_ROOM);
  free(load<u32>(run, RUN_BLOCKS) + UNIT * length, room - length);
}

/**
 * Cut a run before its block `at` (0 < at < length). The front becomes a new run, which is returned; the rest keeps its
 * record, so its children need no change. Places stay. 0, and nothing done, when there is no memory.
 */
export function split(run: u32, at: u32): u32 {
  const blocks: u32 = load<u32>(run, RUN_BLOCKS);
  const parent: u32 = load<u32>(run, RUN_PARENT);
  const cut = blocks + UNIT * at;
  if (keepsFronts && !grow(FRONTS, 4 * (fronts + 1))) return 0;
  const front = newRun(blocks, at, at, parent);
  if (front === 0) return 0;
  const length = newLength(load<u32>(cut, BLOCK_BYTES), 0);
  if (length === 0 || !copyCovers(run, front) || !insert(children, keyOf(front, cut), run)) {
    if (length !== 0) free(length, 1);
    freeRecord(front);
    return 0;
  }
  if (find(children, keyOf(parent, blocks)) === run) setFound(front);
  if (load<u32>(parent, RUN_CHILD) === run) store<u32>(parent, front, RUN_CHILD);
  for (let place = blocks; place < cut; place += UNIT) store<u32>(place, front, BLOCK_RUN);
  store<u32>(run, cut, RUN_BLOCKS);
  moveDigests(run, front);
  cutDigests(front);
  store<u32>(run, load<u32>(run, RUN_LENGTH) - at, RUN_LENGTH);
  store<u32>(run, load<u32>(run, RUN_ROOM) - at, RUN_ROOM);
  store<u32>(run, front, RUN_PARENT);
  store<u32>(front, load<u32>(run, RUN_TOUCHED), RUN_TOUCHED);
  store<u32>(front, 1, RUN_CHILDREN);
  store<u32>(front, run, RUN_CHILD);
  store<u32>(front, length, RUN_LENGTHS);
  cutCovers(front, 0, at);
  cutCovers(run, at, 0x10000);
  if (keepsFronts) setWord(FRONTS, fronts++, blocks);
  return front;
}

/** Undo a split: the run's only child, which lies behind its `length` blocks, takes them and its place. Covers are done. */
export function bequeath(run: u32, child: u32, length: u32): void {
  const blocks = load<u32>(run, RUN_BLOCKS);
  const parent = load<u32>(run, RUN_PARENT);
  const cut = load<u32>(child, RUN_BLOCKS);
  if (find(children, keyOf(run, cut)) === child) eraseFound(children);
  if (find(children, keyOf(parent, blocks)) === run) setFound(child);
  if (load<u32>(parent, RUN_CHILD) === run) store<u32>(parent, child, RUN_CHILD);
  uncountLength(run, load<u32>(cut, BLOCK_BYTES));
  for (let place = blocks; place < cut; place += UNIT) store<u32>(place, child, BLOCK_RUN);
  store<u32>(child, blocks, RUN_BLOCKS);
  freeDigests(child);
  moveDigests(run, child);
  store<u32>(child, load<u32>(child, RUN_LENGTH) + length, RUN_LENGTH);
  store<u32>(child, load<u32>(child, RUN_ROOM) + length, RUN_ROOM);
  store<u32>(child, parent, RUN_PARENT);
  freeRecord(run);
  // A save may have passed the child already. Without room it is not told, which costs it these blocks.
  if (keepsFronts && grow(FRONTS, 4 * (fronts + 1))) setWord(FRONTS, fronts++, blocks);
}

/** From now on remember what splits make, or forget it. */
export function keepFronts(on: bool): void {
  keepsFronts = on;
  fronts = 0;
}

export function frontCount(): u32 {
  return fronts;
}

function copyCovers(from: u32, to: u32): bool {
  const count = load<u32>(from, RUN_COVER_COUNT);
  if (count === 0) return true;
  const covers = alloc(count);
  if (covers === 0) return false;
  memory.copy(covers, load<u32>(from, RUN_COVERS), UNIT * count);
  store<u32>(to, covers, RUN_COVERS);
  store<u32>(to, count, RUN_COVER_COUNT);
  store<u32>(to, count, RUN_COVER_ROOM);
  return true;
}

/** Narrow all covers of a run to its blocks [start, end) as they were numbered before, and count them from 0. */
function cutCovers(run: u32, start: u32, end: u32): void {
  for (let i = <i32>load<u32>(run, RUN_COVER_COUNT) - 1; i >= 0; i--) {
    const cover = load<u32>(run, RUN_COVERS) + UNIT * i;
    const from = max<u32>(load<u16>(cover, COVER_FROM), start) - start;
    const to = <i32>min<u32>(load<u16>(cover, COVER_TO), end) - <i32>start;
    if (to <= <i32>from || !isLive(load<u32>(cover, COVER_LANE))) {
      dropCover(run, i);
      continue;
    }
    const limit: u32 = load<u16>(cover, COVER_LIMIT);
    const cut = <i32>limit - <i32>start;
    store<u16>(cover, <u16>from, COVER_FROM);
    store<u16>(cover, <u16>to, COVER_TO);
    store<u16>(cover, <u16>(limit === NO_LIMIT || cut >= to ? NO_LIMIT : max(cut, 0)), COVER_LIMIT);
  }
}

/** Drop the cover number `index` of a run. */
export function dropCover(run: u32, index: u32): void {
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const last = load<u32>(run, RUN_COVER_COUNT) - 1;
  store<u32>(run, last, RUN_COVER_COUNT);
  if (index !== last) memory.copy(covers + UNIT * index, covers + UNIT * last, UNIT);
}

/**
 * After covers or children went: let go of what nobody holds. A run without children ends with the last block that is
 * covered; one that is empty goes, and so may its parents. A run that has one child left may be joined with it.
 */
export function trim(run: u32): void {
  while (load<u32>(run, RUN_CHILDREN) === 0) {
    if ((load<u32>(run, RUN_FLAGS) & FLAG_ROOT) !== 0) {
      const number = load<u32>(run, RUN_ROOT);
      setWord(ROOTS, number, 0);
      setWord(FREE_ROOTS, freeRoots++, number);
      free(run, RUN_UNITS);
      return;
    }
    let length: u32 = 0;
    const covers: u32 = load<u32>(run, RUN_COVERS);
    const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
    for (let cover = covers; cover < end; cover += UNIT) length = max<u32>(length, load<u16>(cover, COVER_TO));
    if (length > 0) {
      store<u32>(run, length, RUN_LENGTH);
      cutDigests(run);
      if (load<u32>(run, RUN_ROOM) - length >= MAX_IDLE_ROOM) giveBackRoom(run);
      return;
    }
    const parent: u32 = load<u32>(run, RUN_PARENT);
    detach(run);
    freeBlocks(run);
    freeRecord(run);
    run = parent;
  }
  joinWithChild(run);
}

/** Take a run without children out of the tree. It keeps its blocks until `bury()`, for names still lead to them. */
export function kill(run: u32): void {
  const parent: u32 = load<u32>(run, RUN_PARENT);
  detach(run);
  unlist(run);
  freeDigests(run);
  free(load<u32>(run, RUN_COVERS), load<u32>(run, RUN_COVER_ROOM));
  store<u32>(run, 0, RUN_COVER_COUNT);
  store<u32>(run, 0, RUN_COVER_ROOM);
  store<u32>(run, load<u32>(run, RUN_FLAGS) | FLAG_DEAD, RUN_FLAGS);
  trim(parent);
}

/** Free a dead run that no name leads to any longer. */
export function bury(run: u32): void {
  freeBlocks(run);
  free(run, RUN_UNITS);
}

/** Drop the covers of lanes that are gone; the run itself may go with them. */
export function dropDeadCovers(run: u32): void {
  const before = load<u32>(run, RUN_COVER_COUNT);
  for (let i = <i32>before - 1; i >= 0; i--) {
    if (!isLive(load<u32>(load<u32>(run, RUN_COVERS) + UNIT * i, COVER_LANE))) dropCover(run, i);
  }
  if (load<u32>(run, RUN_COVER_COUNT) !== before) trim(run);
}
