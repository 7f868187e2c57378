import { area, CHAIN, CHUNK, CHUNK_ROOTS, ensure, FRONTS, grow, LANE_INFO, RUNS, STEPS, setWord, word } from "./areas";
import { BY_PLACE } from "./buckets";
import { alloc, free } from "./heap";
import {
  BLOCK_BYTES,
  BLOCK_HASH,
  COVER_FROM,
  COVER_LANE,
  COVER_LIMIT,
  COVER_SAVED,
  COVER_TO,
  FLAG_ROOT,
  NO_ROOT,
  PIECE_HEAD,
  PLACE_MASK,
  RUN_BLOCKS,
  RUN_COVER_COUNT,
  RUN_COVERS,
  RUN_FLAGS,
  RUN_LENGTH,
  RUN_PARENT,
  RUN_ROOT,
  TIER_SHIFT,
  UNIT,
  WORKER_INDEX,
  WORKER_PLACES,
  WORKER_SAVE,
} from "./layout";
import { closeTable, find, insertByPlace, isFlagged, openTable } from "./table";
import { enterPart, enterPlace, nextCursor, nextEntry, nextOfPlace, passedKey, passedValue } from "./table-pass";
import { frontCount, keepFronts, liveRunAt, runCount } from "./tree";

/**
 * Saving what a worker holds, in steps with other calls in between.
 *
 * First a pass over its names makes a table from places to names; names stored meanwhile enter it too. Then all runs are gone
 * over, from the list's last to its first (runs that are freed are replaced by the last), and then those that splits put
 * behind where the pass had been. A run is written after those above it; a mark in its covers says that it is. Names are
 * looked up once more when they are written, so what is written is true then.
 */

/** A piece ends when it has so many blocks or names. Names of one place beyond these are left out. */
const PIECE_BLOCKS: u32 = 3072;
const PIECE_NAMES: u32 = 3072;
/** Blocks that nobody holds between two that a worker holds: more are not written, nor what is below. */
const MOST_LEADING: u32 = 4096;
/** A step ends when it has written so many bytes, speaks of so many roots, or looked at so many runs or parts of names. */
const STEP_BYTES: u32 = 98_304;
const STEP_ROOTS: u32 = 64;
const STEP_RUNS: u32 = 4096;
const STEP_PARTS: u32 = 4;

/** The worker that is saved, or 0: one at a time. */
let worker: u32 = 0;
let isNaming: bool = false;
let cursor: u32 = 0;
let nextRun: i32 = 0;
let nextFront: u32 = 0;

let written: u32 = 0;
let roots: u32 = 0;
let isFull: bool = false;

/** The piece that is written: its first byte's offset in CHUNK, blocks, and names, which wait in STEPS. */
let piece: u32 = 0;
let blocks: u32 = 0;
let names: u32 = 0;

/** False when there is no memory, or another save is under way. */
export function beginSave(whose: u32): bool {
  if (worker !== 0) return false;
  const places = alloc(1);
  if (places === 0) return false;
  memory.fill(places, 0, UNIT);
  if (!openTable(places, BY_PLACE)) {
    free(places, 1);
    return false;
  }
  worker = whose;
  store<u32>(worker, places, WORKER_PLACES);
  store<u32>(worker, (load<u32>(worker, WORKER_SAVE) % 0xffff) + 1, WORKER_SAVE);
  isNaming = true;
  cursor = 0;
  keepFronts(true);
  return true;
}

export function endSave(): void {
  if (worker === 0) return;
  const places = load<u32>(worker, WORKER_PLACES);
  closeTable(places);
  free(places, 1);
  store<u32>(worker, 0, WORKER_PLACES);
  worker = 0;
  keepFronts(false);
}

/** How many roots what was just written speaks of: their numbers are in CHUNK_ROOTS. */
export function savedRoots(): u32 {
  return roots;
}

/** Do one step. Returns the bytes written to CHUNK, which may be 0, or -1 when all is written. */
export function saveStep(): i32 {
  written = 0;
  roots = 0;
  isFull = false;
  if (worker === 0) return -1;
  if (isNaming) {
    namePlaces();
    return 0;
  }
  for (let looked: u32 = 0; looked < STEP_RUNS && !isFull; looked++) {
    if (nextRun >= <i32>runCount()) nextRun = <i32>runCount() - 1;
    if (nextRun >= 0) saveFrom(word(RUNS, nextRun--));
    else if (nextFront < frontCount()) {
      const run = liveRunAt(word(FRONTS, nextFront++));
      if (run !== 0) saveFrom(run);
    } else return written > 0 ? <i32>written : -1;
    if (written >= STEP_BYTES || roots >= STEP_ROOTS) isFull = true;
  }
  return written;
}

function namePlaces(): void {
  const places = load<u32>(worker, WORKER_PLACES);
  for (let i: u32 = 0; i < STEP_PARTS && isNaming; i++) {
    enterPart(worker, cursor);
    while (nextEntry()) insertByPlace(places, passedKey(), passedValue());
    cursor = nextCursor(cursor);
    isNaming = cursor !== 0;
  }
  nextRun = <i32>runCount() - 1;
  nextFront = 0;
  if (isNaming) return;
  // Splits before now are in the list.
  keepFronts(true);
}

/** Whether a run's cover is the worker's. */
function isOurs(cover: u32): bool {
  return word(LANE_INFO, load<u32>(cover, COVER_LANE)) >> 3 === load<u32>(worker, WORKER_INDEX);
}

/** Whether the worker holds blocks of a run that are not written yet. */
function isUnsaved(run: u32): bool {
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    if (isOurs(cover) && load<u16>(cover, COVER_SAVED) !== <u16>load<u32>(worker, WORKER_SAVE)) return true;
  }
  return false;
}

/** Write a run, and before it what is above it and not written yet. */
function saveFrom(run: u32): void {
  if (!isUnsaved(run)) return;
  let count: u32 = 0;
  for (let at = run; (load<u32>(at, RUN_FLAGS) & FLAG_ROOT) === 0; at = load<u32>(at, RUN_PARENT)) {
    if (!isUnsaved(at)) continue;
    if (!grow(CHAIN, 4 * (count + 1))) return;
    setWord(CHAIN, count++, at);
  }
  for (; count > 0; count--) saveRun(word(CHAIN, count - 1));
}

function saveRun(run: u32): void {
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  let from: u32 = 0xffff;
  let to: u32 = 0;
  for (let cover = covers; cover < end; cover += UNIT) {
    if (!isOurs(cover)) continue;
    store<u16>(cover, <u16>load<u32>(worker, WORKER_SAVE), COVER_SAVED);
    from = min<u32>(from, load<u16>(cover, COVER_FROM));
    to = max<u32>(to, load<u16>(cover, COVER_TO));
  }
  if (!beginBelow(run, from)) return;
  const first = load<u32>(run, RUN_BLOCKS);
  for (let i = from; i < to; i++) {
    const place = first + UNIT * i;
    if (!addBlock(place)) return;
    const had = names;
    if (!addNames(run, i)) return;
    if (names === had || (blocks < PIECE_BLOCKS && names < PIECE_NAMES)) continue;
    const parent = load<u64>(area(STEPS) + UNIT * had);
    endPiece();
    if (i + 1 < to && !beginPiece(NO_ROOT, parent)) return;
  }
  if (names > 0) endPiece();
  else dropPiece();
}

/** Begin a piece with the blocks between block `at` of a run and the next one above that the worker has a name for, or the root. */
function beginBelow(run: u32, at: u32): bool {
  let lead: u32 = 0;
  let index = at;
  let above = run;
  for (;;) {
    while (index > 0) {
      const place = load<u32>(above, RUN_BLOCKS) + UNIT * --index;
      const name = anyName(place);
      if (isNamed) return beginPiece(NO_ROOT, name) && addLeading(lead);
      if (lead === MOST_LEADING || !ensure(STEPS, 4 * MOST_LEADING)) return false;
      setWord(STEPS, lead++, place);
    }
    above = load<u32>(above, RUN_PARENT);
    index = load<u32>(above, RUN_LENGTH);
    if ((load<u32>(above, RUN_FLAGS) & FLAG_ROOT) !== 0) break;
  }
  return beginPiece(rootOf(load<u32>(above, RUN_ROOT)), 0) && addLeading(lead);
}

/** Leading blocks waited, the last one first, where names of the piece will. */
function addLeading(count: u32): bool {
  for (let i = count; i > 0; i--) if (!addBlock(word(STEPS, i - 1))) return false;
  return true;
}

/** Whether `anyName()` found one. */
let isNamed: bool = false;

/** A name that the worker has for a place. */
function anyName(place: u32): u64 {
  isNamed = false;
  enterPlace(load<u32>(worker, WORKER_PLACES), place / UNIT);
  while (nextOfPlace()) {
    const name = passedKey();
    if ((find(worker, name) & PLACE_MASK) !== place / UNIT) continue;
    isNamed = true;
    return name;
  }
  return 0;
}

/** A root's number in the chunk. */
function rootOf(root: u32): u32 {
  for (let i = roots; i > 0; i--) if (word(CHUNK_ROOTS, i - 1) === root) return i - 1;
  if (!grow(CHUNK_ROOTS, 4 * (roots + 1))) return NO_ROOT;
  setWord(CHUNK_ROOTS, roots, root);
  return roots++;
}

function beginPiece(root: u32, parent: u64): bool {
  if (!grow(CHUNK, written + PIECE_HEAD)) return false;
  piece = written;
  blocks = 0;
  names = 0;
  written += PIECE_HEAD;
  const at = area(CHUNK) + piece;
  store<u32>(at, root, 12);
  store<u64>(at, parent, 16);
  store<u64>(at, 0, 24);
  return true;
}

function addBlock(place: u32): bool {
  if (!grow(CHUNK, written + UNIT)) return dropPiece();
  const at = area(CHUNK) + written;
  store<u64>(at, load<u64>(place, BLOCK_HASH));
  store<u32>(at, load<u32>(place, BLOCK_BYTES), 8);
  store<u32>(at, 0, 12);
  written += UNIT;
  blocks++;
  return true;
}

/** Write the names that the worker has for block `i` of a run, which was just added. */
function addNames(run: u32, i: u32): bool {
  const unit = load<u32>(run, RUN_BLOCKS) / UNIT + i;
  const first = names;
  enterPlace(load<u32>(worker, WORKER_PLACES), unit);
  while (nextOfPlace() && names - first < PIECE_NAMES) {
    const name = passedKey();
    const value = find(worker, name);
    if ((value & PLACE_MASK) !== unit || isWritten(name, first)) continue;
    if (!grow(STEPS, UNIT * (names + 1))) return dropPiece();
    const at = area(STEPS) + UNIT * names++;
    store<u64>(at, name);
    store<u32>(at, (value >> TIER_SHIFT) | (hiddenTiers(run, i) << 4), 8);
    store<u32>(at, isFlagged() ? 1 : 0, 12);
  }
  store<u32>(area(CHUNK) + written - UNIT, names - first, 12);
  return true;
}

function isWritten(name: u64, first: u32): bool {
  for (let i = first; i < names; i++) if (load<u64>(area(STEPS) + UNIT * i) === name) return true;
  return false;
}

/** In which tiers a correction hides the worker's block `i` of a run. */
function hiddenTiers(run: u32, i: u32): u32 {
  let hidden: u32 = 0;
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    if (!isOurs(cover) || load<u16>(cover, COVER_LIMIT) > <u16>i || load<u16>(cover, COVER_TO) <= <u16>i) continue;
    const info = word(LANE_INFO, load<u32>(cover, COVER_LANE));
    if ((info & 1) === 0) hidden |= 1 << ((info >> 1) & 3);
  }
  return hidden;
}

/** No memory: what was begun is not written. */
function dropPiece(): bool {
  written = piece;
  return false;
}

function endPiece(): void {
  if (!grow(CHUNK, written + UNIT * names)) {
    dropPiece();
    return;
  }
  memory.copy(area(CHUNK) + written, area(STEPS), UNIT * names);
  written += UNIT * names;
  const at = area(CHUNK) + piece;
  store<u32>(at, written - piece);
  store<u32>(at, blocks, 4);
  store<u32>(at, names, 8);
  piece = written;
  blocks = 0;
  names = 0;
}
