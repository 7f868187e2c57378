import {
  ANSWERS,
  area,
  BEST,
  BYTES,
  ensure,
  FOUND,
  grow,
  HASHES,
  LANE_INFO,
  MATCH_ENDS,
  SETS,
  STACK,
  STEPS,
  TIERS_SEEN,
} from "./areas";
import { compare, endOf, isHashed, limit, setPrompt } from "./compare";
import { hashBytes } from "./hash";
import {
  COVER_FROM,
  COVER_LANE,
  COVER_LIMIT,
  COVER_STAMP,
  COVER_TO,
  LENGTH_BYTES,
  LENGTH_NEXT,
  RUN_BLOCKS,
  RUN_COVER_COUNT,
  RUN_COVERS,
  RUN_DIGESTS,
  RUN_LENGTH,
  RUN_LENGTHS,
  RUN_TOUCHED,
  TIERS,
  UNIT,
} from "./layout";
import { keepTouched } from "./table";
import { maybeChild, runOf, split } from "./tree";
import { indexCount, usedTiers } from "./workers";

/**
 * Finds what each worker holds of a prompt. A walk from the root: at each run's end the next block's bytes are hashed once for
 * each length that a child begins with; along a run, block by block. Several children may fit (workers with other block
 * sizes), so pending runs are kept on a stack, with the set of workers that hold all before.
 */

/** By worker, 32 bytes: the best so far (0 blocks: none), then what it holds of the run that is looked at. */
const BEST_BLOCKS: u32 = 0;
const BEST_BYTES: u32 = 4;
const BEST_TIER: u32 = 8;
const BEST_VISIT: u32 = 12;
const BEST_HELD: u32 = 16;
const BEST_HELD_TIER: u32 = 20;
const BEST_SIZE: u32 = 32;

let setWords: u32 = 0;
let setCount: u32 = 0;
let depthOfStack: u32 = 0;
let foundCount: u32 = 0;
let stepCount: u32 = 0;
let visit: u32 = 0;
let keepsSteps: bool = false;

function setAt(set: u32): u32 {
  return area(SETS) + 4 * set * setWords;
}

function seenAt(set: u32): u32 {
  return area(TIERS_SEEN) + 32 * set * setWords;
}

function ensureSets(count: u32): bool {
  return grow(SETS, 4 * count * setWords) && grow(TIERS_SEEN, 32 * count * setWords);
}

/** Match what lies in BYTES or HASHES below a root. `only`: a worker's index, or -1 for all. */
function walk(root: u32, only: i32, stamp: u32): void {
  const workers = indexCount();
  setWords = (workers + 31) / 32;
  setCount = 3;
  depthOfStack = 0;
  foundCount = 0;
  stepCount = 0;
  if (root === 0 || workers === 0 || !ensureSets(3)) return;
  if (!grow(BEST, BEST_SIZE * workers) || !grow(FOUND, 4 * workers)) return;
  memory.fill(setAt(0), only < 0 ? 0xff : 0, 4 * setWords);
  memory.fill(seenAt(0), 0, 32 * setWords);
  if (only >= 0) store<u32>(setAt(0) + 4 * (<u32>only / 32), 1 << (<u32>only & 31));
  pushChildren(root, 0, 0, 0);
  while (depthOfStack > 0) {
    const top = area(STACK) + UNIT * --depthOfStack;
    const run: u32 = load<u32>(top);
    visitRun(run, load<u32>(top, 4), load<u32>(top, 8), load<u32>(top, 12), stamp);
  }
}

/** Push those children of a run whose first block may be the prompt's next. */
function pushChildren(run: u32, at: u32, depth: u32, set: u32): void {
  for (let node: u32 = load<u32>(run, RUN_LENGTHS); node !== 0; node = load<u32>(node, LENGTH_NEXT)) {
    const bytes = load<u32>(node, LENGTH_BYTES);
    let hash: u64;
    if (isHashed) {
      if (depth >= limit) return;
      hash = load<u64>(area(HASHES) + 8 * depth);
    } else {
      if (bytes > limit - at) continue;
      hash = hashBytes(area(BYTES) + at, bytes);
    }
    const child = maybeChild(run, hash, bytes);
    if (child === 0 || !grow(STACK, UNIT * (depthOfStack + 1))) continue;
    const top = area(STACK) + UNIT * depthOfStack++;
    store<u32>(top, child);
    store<u32>(top, at, 4);
    store<u32>(top, depth, 8);
    store<u32>(top, set, 12);
  }
}

function visitRun(run: u32, at: u32, depth: u32, set: u32, stamp: u32): void {
  const length = load<u32>(run, RUN_LENGTH);
  keepTouched(load<u32>(load<u32>(run, RUN_COVERS)) + load<u32>(load<u32>(run, RUN_DIGESTS)));
  if (!isHashed && !ensure(MATCH_ENDS, 4 * length)) return;
  // With nothing else pending, two sets take turns.
  const next = depthOfStack === 0 ? (set === 1 ? <u32>2 : <u32>1) : setCount++;
  if (!ensureSets(next + 1)) return;
  const same = compare(run, at, depth);
  if (same === 0) return;
  store<u32>(run, stamp, RUN_TOUCHED);
  memory.fill(setAt(next), 0, 4 * setWords);
  const tiers = usedTiers();
  const some =
    (tiers & (tiers - 1)) === 0
      ? lookOnce(run, at, depth, same, set, next)
      : lookByTier(run, at, depth, same, set, next);
  if (some) pushChildren(run, endOf(run, at, length), depth + length, next);
}

/** Look at a run's covers where all blocks are in one tier. True when a worker holds all of the run. */
function lookOnce(run: u32, at: u32, depth: u32, same: u32, set: u32, next: u32): bool {
  const length = load<u32>(run, RUN_LENGTH);
  const infos = area(LANE_INFO);
  const active = setAt(set);
  const going = setAt(next);
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  let some = false;
  for (let cover = covers; cover < end; cover += UNIT) {
    const info = load<u32>(infos + 4 * load<u32>(cover, COVER_LANE));
    // Lanes that do not count are odd; so is what stands for a lane that is gone.
    if ((info & 1) !== 0 || load<u16>(cover, COVER_FROM) !== 0) continue;
    const index = info >> 3;
    const word = 4 * (index >> 5);
    const bit: u32 = 1 << (index & 31);
    if ((load<u32>(active + word) & bit) === 0) continue;
    const held = min(min<u32>(load<u16>(cover, COVER_TO), load<u16>(cover, COVER_LIMIT)), same);
    if (held === 0) continue;
    const tier = (info >> 1) & 3;
    consider(index, depth + held, endOf(run, at, held), tier);
    if (keepsSteps) addStep(run, held, depth);
    if (held < length) continue;
    some = true;
    store<u32>(going + word, load<u32>(going + word) | bit);
    store<u8>(seenAt(next) + index, <u8>tier);
  }
  return some;
}

/**
 * The same where a worker may have several lanes: the fastest tiers are tried first, and with each slower one allowed the
 * chain may reach farther.
 */
function lookByTier(run: u32, at: u32, depth: u32, same: u32, set: u32, next: u32): bool {
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  visit++;
  for (let tier: u32 = 0; tier < TIERS; tier++) {
    if (((usedTiers() >> tier) & 1) === 0) continue;
    while (reachFarther(covers, end, tier, same, set));
  }
  const length = load<u32>(run, RUN_LENGTH);
  let some = false;
  for (let cover = covers; cover < end; cover += UNIT) {
    const info = load<u32>(area(LANE_INFO) + 4 * load<u32>(cover, COVER_LANE));
    if ((info & 1) !== 0) continue;
    const index = info >> 3;
    const best = area(BEST) + BEST_SIZE * index;
    const held = load<u32>(best, BEST_HELD);
    if (load<u32>(best, BEST_VISIT) !== visit || held === 0) continue;
    store<u32>(best, 0, BEST_HELD); // told once
    const tier = max<u32>(load<u32>(best, BEST_HELD_TIER), load<u8>(seenAt(set) + index));
    consider(index, depth + held, endOf(run, at, held), tier);
    if (keepsSteps) addStep(run, held, depth);
    if (held < length) continue;
    some = true;
    const word = setAt(next) + 4 * (index >> 5);
    store<u32>(word, load<u32>(word) | (1 << (index & 31)));
    store<u8>(seenAt(next) + index, <u8>tier);
  }
  return some;
}

/** Let each worker's chain reach as far as one more cover in tiers up to `tier` takes it; true when one did. */
function reachFarther(covers: u32, end: u32, tier: u32, same: u32, set: u32): bool {
  let farther = false;
  for (let cover = covers; cover < end; cover += UNIT) {
    const info = load<u32>(area(LANE_INFO) + 4 * load<u32>(cover, COVER_LANE));
    if ((info & 1) !== 0 || ((info >> 1) & 3) > tier) continue;
    const index = info >> 3;
    if ((load<u32>(setAt(set) + 4 * (index >> 5)) & (1 << (index & 31))) === 0) continue;
    const best = area(BEST) + BEST_SIZE * index;
    if (load<u32>(best, BEST_VISIT) !== visit) {
      store<u32>(best, visit, BEST_VISIT);
      store<u32>(best, 0, BEST_HELD);
      store<u32>(best, 0, BEST_HELD_TIER);
    }
    const held = load<u32>(best, BEST_HELD);
    const to = min(min<u32>(load<u16>(cover, COVER_TO), load<u16>(cover, COVER_LIMIT)), same);
    if (load<u16>(cover, COVER_FROM) > held || to <= held) continue;
    store<u32>(best, to, BEST_HELD);
    store<u32>(best, tier, BEST_HELD_TIER);
    farther = true;
  }
  return farther;
}

/** Keep the better of two chains: more blocks, then more bytes, then the faster tier. */
function consider(index: u32, blocks: u32, bytes: u32, tier: u32): void {
  const best = area(BEST) + BEST_SIZE * index;
  const had = load<u32>(best, BEST_BLOCKS);
  if (had === 0) store<u32>(area(FOUND) + 4 * foundCount++, index);
  if (blocks < had) return;
  if (blocks === had) {
    const hadBytes = load<u32>(best, BEST_BYTES);
    if (bytes < hadBytes || (bytes === hadBytes && tier >= load<u32>(best, BEST_TIER))) return;
  }
  store<u32>(best, blocks, BEST_BLOCKS);
  store<u32>(best, bytes, BEST_BYTES);
  store<u32>(best, tier, BEST_TIER);
}

function addStep(run: u32, held: u32, depth: u32): void {
  if (!grow(STEPS, UNIT * (stepCount + 1))) return;
  const step = area(STEPS) + UNIT * stepCount++;
  store<u32>(step, load<u32>(run, RUN_BLOCKS));
  store<u32>(step, held, 4);
  store<u32>(step, depth, 8);
}

/** Move what was found to ANSWERS, [index, blocks, bytes, tier] each. */
function answer(): u32 {
  if (!ensure(ANSWERS, UNIT * foundCount)) return 0;
  for (let i: u32 = 0; i < foundCount; i++) {
    const index = load<u32>(area(FOUND) + 4 * i);
    const best = area(BEST) + BEST_SIZE * index;
    store<u32>(area(ANSWERS) + UNIT * i, index);
    store<u32>(area(ANSWERS) + UNIT * i, load<u32>(best, BEST_BLOCKS), 4);
    store<u32>(area(ANSWERS) + UNIT * i, load<u32>(best, BEST_BYTES), 8);
    store<u32>(area(ANSWERS) + UNIT * i, load<u32>(best, BEST_TIER), 12);
    store<u32>(best, 0, BEST_BLOCKS);
  }
  return foundCount;
}

/** Match `length` bytes in BYTES below a root; how many answers there are. */
export function matchBytes(root: u32, length: u32, stamp: u32): u32 {
  if (length === 0) return 0;
  setPrompt(false, length - 1);
  walk(root, -1, stamp);
  return answer();
}

/** Match `count` blocks in HASHES below a root; the answers know no bytes. */
export function matchHashes(root: u32, count: u32, stamp: u32): u32 {
  setPrompt(true, count);
  walk(root, -1, stamp);
  return answer();
}

/** Hide what a worker holds beyond its first `keep` blocks of a prompt, unless it was stored after `since`. True when something was. */
export function hidePath(root: u32, length: u32, index: u32, keep: u32, since: u32, stamp: u32): bool {
  if (length === 0) return false;
  setPrompt(false, length - 1);
  keepsSteps = true;
  walk(root, index, stamp);
  keepsSteps = false;
  answer();
  let hidden = false;
  for (let i: u32 = 0; i < stepCount; i++) {
    const step = area(STEPS) + UNIT * i;
    const held = load<u32>(step, 4);
    const depth = load<u32>(step, 8);
    if (depth + held <= keep) continue;
    if (hideBlocks(load<u32>(step), depth >= keep ? 0 : keep - depth, held, index, since)) hidden = true;
  }
  return hidden;
}

/** Hide what a worker's lanes hold of blocks [from, to) from `start` on, all in one run. */
function hideBlocks(start: u32, from: u32, to: u32, index: u32, since: u32): bool {
  let run = runOf(start);
  // What lies behind is not on this path's account: it stays as it is.
  if (to < load<u32>(run, RUN_LENGTH)) {
    run = split(run, to);
    if (run === 0) return false;
  }
  let hidden = false;
  const covers: u32 = load<u32>(run, RUN_COVERS);
  const end = covers + UNIT * load<u32>(run, RUN_COVER_COUNT);
  for (let cover = covers; cover < end; cover += UNIT) {
    const info = load<u32>(area(LANE_INFO) + 4 * load<u32>(cover, COVER_LANE));
    const last = min<u32>(load<u16>(cover, COVER_TO), load<u16>(cover, COVER_LIMIT));
    const first = max<u32>(load<u16>(cover, COVER_FROM), from);
    if ((info & 1) !== 0 || info >> 3 !== index || last <= first || load<u32>(cover, COVER_STAMP) > since) continue;
    store<u16>(cover, <u16>first, COVER_LIMIT);
    hidden = true;
  }
  return hidden;
}
