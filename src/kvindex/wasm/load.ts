import { area, BYTES, CHUNK_ROOTS, ENDS, ensure, HASHES, LAID, NAMES, word } from "./areas";
import { findCover } from "./covers";
import { holdLaid, releaseMoved } from "./hold";
import { COVER_LIMIT, NO_ROOT, PIECE_HEAD, PLACE_MASK, RUN_BLOCKS, TIERS, UNIT } from "./layout";
import { layChain } from "./store";
import { find } from "./table";
import { isDead, liveRunAt, rootRun, runOf, trim } from "./tree";
import { laneOf } from "./workers";

/** Placing what was saved (the layout of a piece is in layout.ts). */

/** Blocks whose parent is not there, and blocks for which there was no memory, of the chunk that was loaded last. */
let orphans: u32 = 0;
let dropped: u32 = 0;

export function orphansOfLoad(): u32 {
  return orphans;
}

export function droppedOfLoad(): u32 {
  return dropped;
}

/** Whether the bytes [from, to) of BYTES are pieces that speak of `roots` roots at most: their blocks, else -1. */
export function checkPieces(from: u32, to: u32, roots: u32): i32 {
  let total: u32 = 0;
  while (from < to) {
    if (to - from < PIECE_HEAD) return -1;
    const piece = area(BYTES) + from;
    const bytes = load<u32>(piece);
    const blocks = load<u32>(piece, 4);
    const names = load<u32>(piece, 8);
    const root = load<u32>(piece, 12);
    if (blocks === 0 || blocks > 0xffff || names > 0xffff || (root !== NO_ROOT && root >= roots)) return -1;
    if (bytes !== PIECE_HEAD + UNIT * (blocks + names) || bytes > to - from) return -1;
    let sum: u32 = 0;
    for (let i: u32 = 0; i < blocks; i++) {
      const count = load<u32>(piece + PIECE_HEAD + UNIT * i, 12);
      if (count > names || load<u32>(piece + PIECE_HEAD + UNIT * i, 8) > 0xffffff) return -1;
      sum += count;
    }
    if (sum !== names) return -1;
    total += blocks;
    from += bytes;
  }
  return total;
}

/** Place the pieces in bytes [from, to) of BYTES, which were checked; the numbers of their roots are in CHUNK_ROOTS. */
export function loadPieces(worker: u32, from: u32, to: u32, roots: u32, stamp: u32): void {
  orphans = 0;
  dropped = 0;
  while (from < to) {
    const bytes = load<u32>(area(BYTES) + from);
    loadPiece(worker, from, stamp);
    from += bytes;
  }
  // Roots that were made for nothing go.
  for (let i: u32 = 0; i < roots; i++) {
    const run = rootRun(word(CHUNK_ROOTS, i));
    if (run !== 0) trim(run);
  }
}

function loadPiece(worker: u32, offset: u32, stamp: u32): void {
  const blocks = load<u32>(area(BYTES) + offset, 4);
  const names = load<u32>(area(BYTES) + offset, 8);
  const root = load<u32>(area(BYTES) + offset, 12);
  let run: u32;
  let at: u32 = 0;
  if (root === NO_ROOT) {
    const place = (find(worker, load<u64>(area(BYTES) + offset, 16)) & PLACE_MASK) * UNIT;
    if (place === 0 || isDead(runOf(place))) {
      orphans += names;
      return;
    }
    run = runOf(place);
    at = (place - load<u32>(run, RUN_BLOCKS)) / UNIT + 1;
  } else run = rootRun(word(CHUNK_ROOTS, root));
  if (run === 0 || !makeRoom(max(blocks, names)) || !lay(offset, run, at, blocks)) {
    dropped += names;
    return;
  }
  const last = word(LAID, blocks - 1);
  holdPiece(worker, offset, blocks, stamp);
  const end = liveRunAt(last);
  if (end !== 0) trim(end);
}

function makeRoom(count: u32): bool {
  return (
    ensure(HASHES, 8 * count) && ensure(ENDS, 4 * count) && ensure(LAID, 4 * count) && ensure(NAMES, 8 * count + 8)
  );
}

function lay(offset: u32, run: u32, at: u32, blocks: u32): bool {
  let end: u32 = 0;
  for (let i: u32 = 0; i < blocks; i++) {
    const block = area(BYTES) + offset + PIECE_HEAD + UNIT * i;
    store<u64>(area(HASHES) + 8 * i, load<u64>(block));
    end += load<u32>(block, 8);
    store<u32>(area(ENDS) + 4 * i, end);
  }
  return layChain(run, at, blocks);
}

function namesOf(offset: u32, i: u32): u32 {
  return load<u32>(area(BYTES) + offset + PIECE_HEAD + UNIT * i, 12);
}

/** Hold the blocks under their names: those of one name each, with the same tiers and marks, together. */
function holdPiece(worker: u32, offset: u32, blocks: u32, stamp: u32): void {
  let name = offset + PIECE_HEAD + UNIT * blocks;
  for (let i: u32 = 0; i < blocks; ) {
    const count = namesOf(offset, i);
    if (count !== 1) {
      for (let k: u32 = 0; k < count; k++, name += UNIT) hold(worker, name, i, 1, stamp);
      i++;
      continue;
    }
    let some: u32 = 1;
    while (i + some < blocks && namesOf(offset, i + some) === 1 && isAlike(name, name + UNIT * some)) some++;
    hold(worker, name, i, some, stamp);
    name += UNIT * some;
    i += some;
  }
}

function isAlike(a: u32, b: u32): bool {
  return load<u64>(area(BYTES) + a, 8) === load<u64>(area(BYTES) + b, 8);
}

function hold(worker: u32, name: u32, first: u32, count: u32, stamp: u32): void {
  const marks = load<u32>(area(BYTES) + name, 8);
  const counted = load<u32>(area(BYTES) + name, 12) === 0;
  for (let i: u32 = 0; i < count; i++) {
    store<u64>(area(NAMES) + 8 * (first + i), load<u64>(area(BYTES) + name + UNIT * i), 8);
  }
  const held = holdLaid(worker, first, count, marks & 15, counted, stamp);
  releaseMoved(worker);
  dropped += count - held;
  if (counted && marks >> 4 !== 0)
    for (let tier: u32 = 0; tier < TIERS; tier++) {
      if (((marks >> (4 + tier)) & 1) !== 0) hideLaid(<u32>laneOf(worker, tier, 0), first, held);
    }
}

/** Hide what a lane holds of blocks at LAID: nothing of its covers lies behind them. */
function hideLaid(lane: u32, first: u32, count: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    const place = word(LAID, first + i);
    const run = runOf(place);
    const cover = findCover(run, lane);
    const block = (place - load<u32>(run, RUN_BLOCKS)) / UNIT;
    if (cover !== 0 && load<u16>(cover, COVER_LIMIT) > <u16>block) store<u16>(cover, <u16>block, COVER_LIMIT);
  }
}
