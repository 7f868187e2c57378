import { area, BYTES, ENDS, HASHES, LAID, setWord } from "./areas";
import { digestLaid } from "./compare";
import { giveDigests } from "./digests";
import { hashBytes } from "./hash";
import { alloc, free } from "./heap";
import { beginHolding, holdNamed, releaseMoved } from "./hold";
import {
  BLOCK_BYTES,
  BLOCK_HASH,
  BLOCK_RUN,
  DIGEST_BLOCKS,
  FLAG_ROOT,
  MAX_RUN,
  RUN_BLOCKS,
  RUN_CHILDREN,
  RUN_FLAGS,
  RUN_LENGTH,
  RUN_ROOM,
  RUN_TOUCHED,
  UNIT,
} from "./layout";
import { attach, discard, findChild, newRun, runOf, split, trim } from "./tree";

/** Storing: a chain of blocks is walked down along what is there, and branched and appended where it is not. */

/** Room of a run that is made for few blocks, as generation stores them: the next ones are appended. */
const SMALL_STORE: u32 = 8;
const MAX_ROOM_AHEAD: u32 = 32;
/** Hash `count` blocks of the area BYTES, which end at ENDS, to HASHES. */
export function hashBlocks(count: u32): void {
  const bytes = area(BYTES);
  const ends = area(ENDS);
  const hashes = area(HASHES);
  let from: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const end = load<u32>(ends + 4 * i);
    store<u64>(hashes + 8 * i, hashBytes(bytes + from, end - from));
    from = end;
  }
}

function lengthOf(ends: u32, i: u32): u32 {
  const end = load<u32>(ends + 4 * i);
  return i === 0 ? end : end - load<u32>(ends + 4 * i - 4);
}

/** How many blocks from `place` on are those from number `done` on. */
function sameBlocks(place: u32, done: u32, count: u32): u32 {
  const hashes = area(HASHES) + 8 * done;
  const ends = area(ENDS);
  for (let i: u32 = 0; i < count; i++) {
    if (
      load<u64>(place + UNIT * i, BLOCK_HASH) !== load<u64>(hashes + 8 * i) ||
      load<u32>(place + UNIT * i, BLOCK_BYTES) !== lengthOf(ends, done + i)
    )
      return i;
  }
  return count;
}

/**
 * Place the blocks in HASHES and ENDS (and BYTES, when they were not given as hashes) under the names in NAMES (from the second on) below block number `at - 1` of `run`.
 * @returns how many are placed: fewer when there is no memory
 */
export function placeChain(
  worker: u32,
  tier: u32,
  run: u32,
  at: u32,
  count: u32,
  isHashed: bool,
  counted: bool,
  stamp: u32,
): u32 {
  beginHolding(counted);
  let done: u32 = 0;
  while (done < count) {
    const length = load<u32>(run, RUN_LENGTH);
    let place: u32 = load<u32>(run, RUN_BLOCKS) + UNIT * at;
    let same: u32 = 0;
    if (at < length) {
      same = sameBlocks(place, done, min(length - at, count - done));
      if (same === 0) {
        run = split(run, at);
        if (run === 0) break;
        continue;
      }
    } else {
      const child = findChild(run, load<u64>(area(HASHES) + 8 * done), lengthOf(area(ENDS), done));
      if (child !== 0) {
        run = child;
        at = 0;
        continue;
      }
      place = append(run, done, count - done);
      if (place === 0) break;
      run = runOf(place);
      same = <u32>(load<u32>(run, RUN_BLOCKS) + UNIT * load<u32>(run, RUN_LENGTH) - place) / UNIT;
      if (same >= DIGEST_BLOCKS) digestLaid(run, place, done, isHashed);
    }
    const held = holdNamed(worker, tier, place, done, same, stamp);
    done += held;
    if (held < same) {
      trim(runOf(place + UNIT * held));
      break;
    }
    const last = place + UNIT * (same - 1);
    run = runOf(last);
    at = <u32>(last - load<u32>(run, RUN_BLOCKS)) / UNIT + 1;
    store<u32>(run, stamp, RUN_TOUCHED);
  }
  releaseMoved(worker);
  return done;
}

/**
 * Put the `count` blocks in HASHES and ENDS below block number `at - 1` of `run`, held by nobody, and their places to LAID.
 * @returns false when there is no memory: what nobody holds is gone then
 */
export function layChain(run: u32, at: u32, count: u32): bool {
  let done: u32 = 0;
  while (done < count) {
    const length = load<u32>(run, RUN_LENGTH);
    if (at < length) {
      const place = load<u32>(run, RUN_BLOCKS) + UNIT * at;
      const same = sameBlocks(place, done, min(length - at, count - done));
      if (same === 0) {
        const front = split(run, at);
        if (front === 0) break;
        run = front;
        continue;
      }
      for (let i: u32 = 0; i < same; i++) setWord(LAID, done + i, place + UNIT * i);
      done += same;
      at += same;
      continue;
    }
    const child = findChild(run, load<u64>(area(HASHES) + 8 * done), lengthOf(area(ENDS), done));
    if (child !== 0) {
      run = child;
      at = 0;
      continue;
    }
    const place = append(run, done, count - done);
    if (place === 0) break;
    run = runOf(place);
    at = (place - load<u32>(run, RUN_BLOCKS)) / UNIT;
  }
  if (done === count) return true;
  trim(run);
  return false;
}

/**
 * Put up to `count` blocks from number `first` on behind the end of a run: into its own room, else into a new child. Nobody
 * holds them yet.
 * @returns place of the first, the others follow it to the run's end; 0 when there is no memory
 */
function append(run: u32, first: u32, count: u32): u32 {
  const length = load<u32>(run, RUN_LENGTH);
  const spare = <i32>min(load<u32>(run, RUN_ROOM), MAX_RUN) - <i32>length;
  if (spare <= 0 || load<u32>(run, RUN_CHILDREN) > 0 || (load<u32>(run, RUN_FLAGS) & FLAG_ROOT) !== 0)
    return appendChild(run, first, min(count, MAX_RUN));
  const fits = min(<u32>spare, count);
  const place: u32 = load<u32>(run, RUN_BLOCKS) + UNIT * length;
  write(place, first, fits, run);
  store<u32>(run, length + fits, RUN_LENGTH);
  return place;
}

function appendChild(run: u32, first: u32, count: u32): u32 {
  const ahead = min(MAX_ROOM_AHEAD, max<u32>(SMALL_STORE, 2 * load<u32>(run, RUN_LENGTH)));
  // A chain that goes on in small steps will go on in more of them.
  const goesOn = load<u32>(run, RUN_CHILDREN) === 0 && (load<u32>(run, RUN_FLAGS) & FLAG_ROOT) === 0;
  const room = count < SMALL_STORE || goesOn ? max(count, ahead) : count;
  // Digests lie right behind the blocks: one range to find, and lines that are written anyway.
  const digests = count / DIGEST_BLOCKS;
  const place = alloc(room + digests);
  if (place === 0) return 0;
  const child = newRun(place, count, room, run);
  if (child === 0) {
    free(place, room + digests);
    return 0;
  }
  if (digests > 0) giveDigests(child, place + UNIT * room, digests);
  write(place, first, count, child);
  if (attach(child)) return place;
  discard(child);
  return 0;
}

function write(place: u32, first: u32, count: u32, run: u32): void {
  const hashes = area(HASHES) + 8 * first;
  const ends = area(ENDS) + 4 * first;
  let before: u32 = first === 0 ? 0 : load<u32>(ends - 4);
  for (let i: u32 = 0; i < count; i++) {
    const end = load<u32>(ends + 4 * i);
    store<u64>(place + UNIT * i, load<u64>(hashes + 8 * i), BLOCK_HASH);
    store<u32>(place + UNIT * i, end - before, BLOCK_BYTES);
    store<u32>(place + UNIT * i, run, BLOCK_RUN);
    before = end;
  }
}
