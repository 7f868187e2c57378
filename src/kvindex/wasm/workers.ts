import { DYING, FREE_LANES, grow, LANE_INFO, setWord, WORKERS, word } from "./areas";
import { BY_KEY } from "./buckets";
import { allocZeroed, free } from "./heap";
import { LANES, WORKER_IN_TIER, WORKER_INDEX, WORKER_LANES, WORKER_UNCOUNTED, WORKER_UNITS } from "./layout";
import { closeTable, openTable } from "./table";

/**
 * Workers and their lanes. A reset gives a worker new lanes, and what the old ones covered stops counting at once, wherever it
 * lies. Old lanes' numbers are used again once nothing in the tree mentions them.
 *
 * What a lane number stands for: worker's index << 3 | tier << 1 | 1 for blocks that do not count.
 */
const GONE: u32 = 0x7fffffff;

let lanes: u32 = 0;
let freeLanes: u32 = 0;
let dying: u32 = 0;
/** One more than the highest index ever used. */
let indexes: u32 = 0;
/** Bit t is set when tier t was ever used. */
let tiersUsed: u32 = 0;

export function indexCount(): u32 {
  return indexes;
}

export function usedTiers(): u32 {
  return tiersUsed;
}

/** A worker's record, or 0. */
export function workerAt(index: u32): u32 {
  return word(WORKERS, index);
}

/** Make the worker of an index; 0 when there is no memory. */
export function newWorker(index: u32): u32 {
  if (!grow(WORKERS, 4 * (index + 1))) return 0;
  const worker = allocZeroed(WORKER_UNITS);
  if (worker === 0) return 0;
  if (!openTable(worker, BY_KEY)) {
    free(worker, WORKER_UNITS);
    return 0;
  }
  store<u32>(worker, index, WORKER_INDEX);
  setWord(WORKERS, index, worker);
  if (index >= indexes) indexes = index + 1;
  return worker;
}

/** Let go of a worker's names and lanes; it stays, empty. */
export function emptyWorker(worker: u32): void {
  for (let i: u32 = 0; i < LANES; i++) {
    const lane = load<u32>(worker + 4 * i, WORKER_LANES);
    if (lane === 0) continue;
    setWord(LANE_INFO, lane - 1, GONE);
    // There is room: see newLane().
    setWord(DYING, dying++, lane - 1);
    store<u32>(worker + 4 * i, 0, WORKER_LANES);
  }
  closeTable(worker);
  // The smallest table fits into what was just freed.
  openTable(worker, BY_KEY);
  memory.fill(worker + WORKER_IN_TIER, 0, 16);
  store<u32>(worker, 0, WORKER_UNCOUNTED);
}

export function dropWorker(worker: u32): void {
  emptyWorker(worker);
  closeTable(worker);
  setWord(WORKERS, load<u32>(worker, WORKER_INDEX), 0);
  free(worker, WORKER_UNITS);
}

function newLane(): i32 {
  if (freeLanes > 0) return word(FREE_LANES, --freeLanes);
  const bytes = 4 * (lanes + 1);
  if (!grow(LANE_INFO, bytes) || !grow(FREE_LANES, bytes) || !grow(DYING, bytes)) return -1;
  return lanes++;
}

/** The lane of a worker's tier and class, made when missing; -1 when there is no memory. */
export function laneOf(worker: u32, tier: u32, uncounted: u32): i32 {
  const at = worker + 4 * (2 * tier + uncounted);
  const known = load<u32>(at, WORKER_LANES);
  if (known !== 0) return known - 1;
  const lane = newLane();
  if (lane < 0) return -1;
  setWord(LANE_INFO, lane, (load<u32>(worker, WORKER_INDEX) << 3) | (tier << 1) | uncounted);
  store<u32>(at, lane + 1, WORKER_LANES);
  tiersUsed |= 1 << tier;
  return lane;
}

export function isLive(lane: u32): bool {
  return word(LANE_INFO, lane) !== GONE;
}

/** Lanes that are gone and may still be mentioned in the tree. */
export function dyingCount(): u32 {
  return dying;
}

/** Move dying lanes to a list of their own; how many. */
export function takeDying(list: u32): u32 {
  if (!grow(list, 4 * dying)) return 0;
  for (let i: u32 = 0; i < dying; i++) setWord(list, i, word(DYING, i));
  const count = dying;
  dying = 0;
  return count;
}

/** Take back lanes that nothing mentions any longer. */
export function releaseLanes(list: u32, count: u32): void {
  for (let i: u32 = 0; i < count; i++) setWord(FREE_LANES, freeLanes++, word(list, i));
}
