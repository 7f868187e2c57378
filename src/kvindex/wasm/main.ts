import { area, ensure, HASHES, roomOf } from "./areas";
import { seedTables } from "./buckets";
import { hashBytes, seedHash } from "./hash";
import { nameAt, setCounted } from "./hold";
import { PLACE_MASK, RUN_BLOCKS, UNIT, WORKER_IN_TIER, WORKER_INDEX, WORKER_UNCOUNTED } from "./layout";
import { checkPieces, droppedOfLoad, loadPieces, orphansOfLoad } from "./load";
import { hidePath, matchBytes, matchHashes } from "./match";
import { evictBytes, evictNow, step, takeEvicted, usedBytes } from "./reclaim";
import { removeNames } from "./remove";
import { beginSave, endSave, savedRoots, saveStep } from "./save";
import { openSpares } from "./spares";
import { hashBlocks, placeChain } from "./store";
import { find, isFlagged, openSeek, tableSize } from "./table";
import { isDead, newRoot, openTree, rootRun, runCount, runOf, trim } from "./tree";
import { dropWorker, emptyWorker, newWorker } from "./workers";

/** What the index calls (core.ts). Numbers of areas are those of areas.ts; addresses change when an area is made larger. */

export {
  area,
  beginSave,
  checkPieces,
  droppedOfLoad,
  dropWorker,
  emptyWorker,
  endSave,
  ensure,
  evictBytes,
  evictNow,
  hashBytes,
  loadPieces,
  newRoot,
  newWorker,
  orphansOfLoad,
  roomOf,
  rootRun,
  runCount,
  savedRoots,
  saveStep,
  takeEvicted,
  usedBytes,
};

/** False when there is no memory even for an empty index. */
export function open(seed: u32): bool {
  seedHash(seed);
  seedTables(seed);
  return openTree() && openSpares() && openSeek();
}

/** The parent is not known: nothing was placed. */
export const ORPHANS: i32 = -1;
/** There may be no room below the cap: make some (`makeRoom()`), and call again. */
export const ROOM: i32 = -2;

/** Memory that a block takes at most, on the average of a store, and what a store of few may need besides. */
const WORST_BLOCK_BYTES: u32 = 640;
const SLACK_BYTES: u32 = 131_072;
/** Bytes that may still be used before the caller compares what is used with the cap. */
let allowance: f64 = 0;

export function allow(bytes: f64): void {
  allowance = bytes;
}

/** Bytes that a store of so many blocks may need. */
export function needOf(count: u32): f64 {
  return <f64>count * <f64>WORST_BLOCK_BYTES + <f64>SLACK_BYTES;
}

/**
 * Store `count` blocks: names in NAMES from the second on, the parent's in the first when there is one, ends in ENDS, and their
 * bytes in BYTES or hashes in HASHES.
 * @param root - of a chain without parent; a new one when it is not there any longer
 * @returns how many were placed, fewer when there is no memory, or ORPHANS or ROOM
 */
export function storeBlocks(
  worker: u32,
  hasParent: bool,
  root: u32,
  count: u32,
  tier: u32,
  isHashed: bool,
  stamp: u32,
): i32 {
  const need = needOf(count);
  if (need > allowance) return ROOM;
  let run: u32;
  let at: u32 = 0;
  let counted = true;
  if (hasParent) {
    const value = find(worker, nameAt(<u32>-1));
    const place: u32 = <u32>(value & PLACE_MASK) * UNIT;
    if (place === 0 || isDead(runOf(place))) return ORPHANS;
    counted = !isFlagged();
    run = runOf(place);
    at = <u32>(place - load<u32>(run, RUN_BLOCKS)) / UNIT + 1;
  } else run = rootRun(root);
  allowance -= need;
  if (run === 0 || count === 0) return 0;
  if (!isHashed) {
    if (!ensure(HASHES, 8 * count)) return 0;
    hashBlocks(count);
  }
  const placed = placeChain(worker, tier, run, at, count, isHashed, counted, stamp);
  if (!hasParent && placed === 0) trim(run);
  // Not before: an empty root would go.
  step(count, stamp);
  return placed;
}

/** Remove names of NAMES from tiers (one bit each); how many were not held. */
export function removeBlocks(worker: u32, count: u32, tiers: u32): u32 {
  step(count);
  return removeNames(worker, count, tiers);
}

export function markBlocks(worker: u32, count: u32, counted: bool, stamp: u32): void {
  setCounted(worker, count, counted, stamp);
}

/** Match `length` bytes of BYTES; answers are in ANSWERS. */
export function matchPrompt(root: u32, length: u32, stamp: u32): u32 {
  const before = usedBytes();
  const found = matchBytes(rootRun(root), length, stamp);
  allowance -= usedBytes() - before;
  return found;
}

export function matchHashed(root: u32, count: u32, stamp: u32): u32 {
  const before = usedBytes();
  const found = matchHashes(rootRun(root), count, stamp);
  allowance -= usedBytes() - before;
  return found;
}

export function hide(root: u32, length: u32, worker: u32, keep: u32, since: u32, stamp: u32): bool {
  return hidePath(rootRun(root), length, load<u32>(worker, WORKER_INDEX), keep, since, stamp);
}

/** Do some of the work that is owed, without blocks. */
export function tick(blocks: u32): void {
  step(blocks);
}

export function namesOf(worker: u32): u32 {
  return tableSize(worker);
}

export function namesInTier(worker: u32, tier: u32): u32 {
  return load<u32>(worker + 4 * tier, WORKER_IN_TIER);
}

export function uncountedOf(worker: u32): u32 {
  return load<u32>(worker, WORKER_UNCOUNTED);
}
