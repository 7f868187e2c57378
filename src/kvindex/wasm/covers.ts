import { alloc, free } from "./heap";
import {
  COVER_FROM,
  COVER_LANE,
  COVER_LIMIT,
  COVER_SAVED,
  COVER_STAMP,
  COVER_TO,
  NO_LIMIT,
  RUN_BLOCKS,
  RUN_COVER_COUNT,
  RUN_COVER_ROOM,
  RUN_COVERS,
  RUN_LENGTH,
  UNIT,
} from "./layout";
import { dropCover, runOf, split, trim } from "./tree";

/** Who holds which blocks of a run. */

/** A lane's cover of a run, brought to the front; 0 when it has none. */
export function findCover(run: u32, lane: u32): u32 {
  const front: u32 = load<u32>(run, RUN_COVERS);
  const end = front + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let at = front; at < end; at += UNIT) {
    if (load<u32>(at, COVER_LANE) !== lane) continue;
    if (at !== front) {
      const other = v128.load(front);
      v128.store(front, v128.load(at));
      v128.store(at, other);
    }
    return front;
  }
  return 0;
}

/** Add a cover; false when there is no memory. */
function addCover(run: u32, lane: u32, from: u32, to: u32, stamp: u32): bool {
  const count = load<u32>(run, RUN_COVER_COUNT);
  if (count === load<u32>(run, RUN_COVER_ROOM) && !growCovers(run, count)) return false;
  const cover: u32 = load<u32>(run, RUN_COVERS) + UNIT * count;
  store<u32>(cover, lane, COVER_LANE);
  store<u16>(cover, <u16>from, COVER_FROM);
  store<u16>(cover, <u16>to, COVER_TO);
  store<u16>(cover, <u16>NO_LIMIT, COVER_LIMIT);
  store<u16>(cover, 0, COVER_SAVED);
  store<u32>(cover, stamp, COVER_STAMP);
  store<u32>(run, count + 1, RUN_COVER_COUNT);
  return true;
}

function growCovers(run: u32, count: u32): bool {
  const room: u32 = count === 0 ? 1 : 2 * count;
  const covers = alloc(room);
  if (covers === 0) return false;
  const old: u32 = load<u32>(run, RUN_COVERS);
  memory.copy(covers, old, UNIT * count);
  free(old, count);
  store<u32>(run, covers, RUN_COVERS);
  store<u32>(run, room, RUN_COVER_ROOM);
  return true;
}

/**
 * Let a lane hold `count` blocks from `place` on, which lie in one run. Splits the run where a hole would be. Corrections of
 * these blocks are lifted.
 * @returns false when there is no memory for it: nothing is held then that was not before
 */
export function holdBlocks(lane: u32, place: u32, count: u32, stamp: u32): bool {
  for (;;) {
    const run = runOf(place);
    const from = <u32>(place - load<u32>(run, RUN_BLOCKS)) / UNIT;
    const to = from + count;
    const cover = findCover(run, lane);
    if (cover === 0) return addCover(run, lane, from, to, stamp);
    const first: u32 = load<u16>(cover, COVER_FROM);
    const last: u32 = load<u16>(cover, COVER_TO);
    const limit: u32 = load<u16>(cover, COVER_LIMIT);
    // Each split leaves the run that is looked at next without the cause of the split: it ends after three rounds.
    const cut: u32 = from > last || (limit !== NO_LIMIT && from > limit) ? from : to < first ? to : 0;
    if (cut > 0) {
      if (split(run, cut) === 0) return false;
      continue;
    }
    store<u16>(cover, <u16>min(first, from), COVER_FROM);
    store<u16>(cover, <u16>max(last, to), COVER_TO);
    if (limit !== NO_LIMIT && to > limit) store<u16>(cover, <u16>(to >= last ? NO_LIMIT : to), COVER_LIMIT);
    store<u32>(cover, stamp, COVER_STAMP);
    return true;
  }
}

/** Let go of what a lane holds of `count` blocks from `place` on. Memory that nobody needs any longer is freed. */
export function releaseBlocks(lane: u32, place: u32, count: u32): void {
  // They lay in one run before; splits may have parted it since. The tail goes first.
  while (count > 0) {
    const run = runOf(place + UNIT * (count - 1));
    const blocks: u32 = load<u32>(run, RUN_BLOCKS);
    const from = max(place, blocks);
    const some = count - <u32>(from - place) / UNIT;
    releaseInRun(lane, run, <u32>(from - blocks) / UNIT, some);
    count -= some;
  }
}

function releaseInRun(lane: u32, run: u32, block: u32, count: u32): void {
  const cover = findCover(run, lane);
  if (cover === 0) return;
  let from: u32 = load<u16>(cover, COVER_FROM);
  let to: u32 = load<u16>(cover, COVER_TO);
  const first = max(block, from);
  const end = min(block + count, to);
  if (first >= end) return;
  const atTail = end === load<u32>(run, RUN_LENGTH);
  if (end === to) to = first;
  else if (first === from) from = end;
  else {
    // The rest keeps the run's record, and holds the blocks at its start.
    if (split(run, first) !== 0) releaseInRun(lane, run, 0, end - first);
    // No memory to split: keep it held, so that nothing dangles, and hide it, so that it does not count.
    else store<u16>(cover, min<u16>(load<u16>(cover, COVER_LIMIT), <u16>first), COVER_LIMIT);
    return;
  }
  if (from === to) {
    dropCover(run, 0); // findCover() has brought it to the front
  } else {
    const limit: u32 = load<u16>(cover, COVER_LIMIT);
    store<u16>(cover, <u16>from, COVER_FROM);
    store<u16>(cover, <u16>to, COVER_TO);
    if (limit !== NO_LIMIT) store<u16>(cover, <u16>(limit >= to ? NO_LIMIT : max(limit, from)), COVER_LIMIT);
  }
  if (from === to || atTail) trim(run);
}
