import { BY_KEY } from "./buckets";
import { COVER_LANE, RUN_BLOCKS, RUN_COVER_COUNT, RUN_COVERS, RUN_LENGTH, UNIT } from "./layout";
import { eraseFound, find, insertNotFound, openTable, setFound, tableSize } from "./table";
import { enterPart, erasePassed, nextCursor, nextEntry, passedKey } from "./table-pass";
import { isLive } from "./workers";

/**
 * Blocks that a lane holds under more than one name: other tokens can spell the same bytes. Such a block is held until its
 * last name goes. They are rare, so they are counted here and not in the tree.
 */

/** By lane and place: names besides the first. */
const counts: u32 = <u32>memory.data(16, 16);

export function openSpares(): bool {
  return openTable(counts, BY_KEY);
}

export function hasSpares(): bool {
  return tableSize(counts) > 0;
}

function key(lane: u32, place: u32): u64 {
  return ((<u64>lane) << 32) | <u64>place;
}

/** One name more; false when there is no memory. */
export function addSpare(lane: u32, place: u32): bool {
  const count = find(counts, key(lane, place));
  if (count === 0) return insertNotFound(counts, key(lane, place), 1);
  setFound(count + 1);
  return true;
}

/** Let one of several names go; false when there was but one, and the block itself must go. */
export function useSpare(lane: u32, place: u32): bool {
  if (tableSize(counts) === 0) return false;
  const count = find(counts, key(lane, place));
  if (count === 0) return false;
  if (count > 1) setFound(count - 1);
  else eraseFound(counts);
  return true;
}

/** Forget a run that is evicted. */
export function forgetSparesOf(run: u32): void {
  if (tableSize(counts) === 0) return;
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const blocks: u32 = load<u32>(run, RUN_BLOCKS);
  for (let i: u32 = 0; i < load<u32>(run, RUN_COVER_COUNT); i++) {
    const lane = load<u32>(covers + UNIT * i, COVER_LANE);
    for (let block: u32 = 0; block < load<u32>(run, RUN_LENGTH); block++) {
      if (find(counts, key(lane, blocks + UNIT * block)) !== 0) eraseFound(counts);
    }
  }
}

/** Forget lanes that are gone, before their numbers are used again. */
export function forgetGoneSpares(): void {
  if (tableSize(counts) === 0) return;
  let cursor: u32 = 0;
  do {
    enterPart(counts, cursor);
    while (nextEntry()) if (!isLive(<u32>(passedKey() >> 32))) erasePassed();
    cursor = nextCursor(cursor);
  } while (cursor !== 0);
}
