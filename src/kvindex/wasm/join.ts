import { alloc, free } from "./heap";
import {
  COVER_FROM,
  COVER_LANE,
  COVER_LIMIT,
  COVER_SAVED,
  COVER_STAMP,
  COVER_TO,
  FLAG_ROOT,
  MAX_RUN,
  NO_LIMIT,
  RUN_BLOCKS,
  RUN_CHILDREN,
  RUN_COVER_COUNT,
  RUN_COVER_ROOM,
  RUN_COVERS,
  RUN_FLAGS,
  RUN_LENGTH,
  RUN_PARENT,
  RUN_ROOM,
  RUN_TOUCHED,
  UNIT,
} from "./layout";
import { bequeath, dropCover, liveRunAt, trim } from "./tree";
import { isLive } from "./workers";

/** Undoing splits that nothing needs any longer, so that matches go on in long runs. */

/**
 * When a run's only child lies right behind it in memory, and no lane would get a hole, let the child take the run's blocks. The
 * run is gone then.
 */
export function joinWithChild(run: u32): void {
  if (load<u32>(run, RUN_CHILDREN) !== 1 || (load<u32>(run, RUN_FLAGS) & FLAG_ROOT) !== 0) return;
  const length = load<u32>(run, RUN_LENGTH);
  if (load<u32>(run, RUN_ROOM) !== length) return;
  const cut = load<u32>(run, RUN_BLOCKS) + UNIT * length;
  const child = liveRunAt(cut);
  if (child === 0 || load<u32>(child, RUN_PARENT) !== run || load<u32>(child, RUN_BLOCKS) !== cut) return;
  if (length + load<u32>(child, RUN_ROOM) > MAX_RUN || !staysWhole(run, child, length) || !makeRoom(run, child)) return;
  joinCovers(run, child, length);
  const touched = max(load<u32>(run, RUN_TOUCHED), load<u32>(child, RUN_TOUCHED));
  store<u32>(child, touched, RUN_TOUCHED);
  bequeath(run, child, length);
  // Covers of lanes that are gone did not come along: there may be blocks that nobody holds.
  trim(child);
}

/** The cover of a run for the lane of another's cover; 0 for none. Nothing is moved. */
function coverLike(run: u32, other: u32): u32 {
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    if (load<u32>(cover, COVER_LANE) === load<u32>(other, COVER_LANE)) return cover;
  }
  return 0;
}

/** Whether each lane's blocks in both stay one stretch, and what is hidden its end. */
function staysWhole(run: u32, child: u32, length: u32): bool {
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    const below = coverLike(child, cover);
    if (below === 0) continue;
    if (load<u16>(cover, COVER_TO) !== <u16>length || load<u16>(below, COVER_FROM) !== 0) return false;
    if (load<u16>(cover, COVER_LIMIT) !== <u16>NO_LIMIT && load<u16>(below, COVER_LIMIT) !== 0) return false;
  }
  return true;
}

/** Make room for all covers of both at the child. */
function makeRoom(run: u32, child: u32): bool {
  const count = load<u32>(child, RUN_COVER_COUNT);
  const room = count + load<u32>(run, RUN_COVER_COUNT);
  if (room <= load<u32>(child, RUN_COVER_ROOM)) return true;
  const covers = alloc(room);
  if (covers === 0) return false;
  memory.copy(covers, load<u32>(child, RUN_COVERS), UNIT * count);
  free(load<u32>(child, RUN_COVERS), load<u32>(child, RUN_COVER_ROOM));
  store<u32>(child, covers, RUN_COVERS);
  store<u32>(child, room, RUN_COVER_ROOM);
  return true;
}

function joinCovers(run: u32, child: u32, length: u32): void {
  // Lanes that are gone stay behind: whoever looks for them may have looked at the child already.
  for (let i = <i32>load<u32>(child, RUN_COVER_COUNT) - 1; i >= 0; i--) {
    const cover = load<u32>(child, RUN_COVERS) + UNIT * i;
    if (isLive(load<u32>(cover, COVER_LANE))) shift(cover, length);
    else dropCover(child, i);
  }
  const covers = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    if (!isLive(load<u32>(cover, COVER_LANE))) continue;
    const below = coverLike(child, cover);
    if (below !== 0) {
      prepend(cover, below);
      continue;
    }
    const count = load<u32>(child, RUN_COVER_COUNT);
    memory.copy(load<u32>(child, RUN_COVERS) + UNIT * count, cover, UNIT);
    store<u32>(child, count + 1, RUN_COVER_COUNT);
  }
}

function shift(cover: u32, by: u32): void {
  const limit: u32 = load<u16>(cover, COVER_LIMIT);
  store<u16>(cover, load<u16>(cover, COVER_FROM) + <u16>by, COVER_FROM);
  store<u16>(cover, load<u16>(cover, COVER_TO) + <u16>by, COVER_TO);
  if (limit !== NO_LIMIT) store<u16>(cover, <u16>(limit + by), COVER_LIMIT);
}

function prepend(cover: u32, below: u32): void {
  store<u16>(below, load<u16>(cover, COVER_FROM), COVER_FROM);
  store<u16>(below, min<u16>(load<u16>(cover, COVER_LIMIT), load<u16>(below, COVER_LIMIT)), COVER_LIMIT);
  store<u32>(below, max(load<u32>(cover, COVER_STAMP), load<u32>(below, COVER_STAMP)), COVER_STAMP);
  if (load<u16>(cover, COVER_SAVED) !== load<u16>(below, COVER_SAVED)) store<u16>(below, 0, COVER_SAVED);
}
