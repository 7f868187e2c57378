import { area, BYTES, ENDS, HASHES, MATCH_ENDS } from "./areas";
import { ensureDigests, freeDigests } from "./digests";
import { hashBytes } from "./hash";
import {
  BLOCK_BYTES,
  BLOCK_HASH,
  DIGEST_BLOCKS,
  DIGEST_END,
  DIGEST_HASH,
  FLAG_HASHED,
  RUN_BLOCKS,
  RUN_DIGEST_COUNT,
  RUN_DIGESTS,
  RUN_FLAGS,
  RUN_LENGTH,
  UNIT,
} from "./layout";

/**
 * Compares a prompt with the blocks of a run: first by digests, of many blocks each, then block by block. Runs get them when many
 * blocks are stored at once, and of what a prompt was found to have. So what is asked for is seldom read block by block.
 */

/** Whether the prompt is HASHES, and else BYTES. */
export let isHashed: bool = false;
/** Bytes (blocks, when hashed) that may be matched: the last token is always computed anew. */
export let limit: u32 = 0;
/** MATCH_ENDS has the ends of the blocks from this one on. */
let endsFrom: u32 = 0;

/** What prompt the next calls are about. */
export function setPrompt(hashed: bool, most: u32): void {
  isHashed = hashed;
  limit = most;
}

/** How many blocks of a run the prompt has. */
export function compare(run: u32, at: u32, depth: u32): u32 {
  if (((load<u32>(run, RUN_FLAGS) & FLAG_HASHED) !== 0) !== isHashed) forgetDigests(run);
  const known: u32 = load<u16>(run, RUN_DIGEST_COUNT);
  const digests = isHashed ? sameHashDigests(run, depth, known) : sameByteDigests(run, at, known);
  const from = DIGEST_BLOCKS * digests;
  const same = isHashed ? compareHashes(run, depth, from) : compareBytes(run, at, from);
  if (digests === known && same >= from + DIGEST_BLOCKS) digest(run, at, depth, known, same / DIGEST_BLOCKS);
  return same;
}

/** The run was compared in the other way until now. */
function forgetDigests(run: u32): void {
  freeDigests(run);
  store<u32>(run, load<u32>(run, RUN_FLAGS) ^ FLAG_HASHED, RUN_FLAGS);
}

/** How many of a run's digests the prompt's hashes have. */
function sameHashDigests(run: u32, depth: u32, known: u32): u32 {
  const digests: u32 = load<u32>(run, RUN_DIGESTS);
  const hashes = area(HASHES) + 8 * depth;
  const most = min(known, (limit - depth) / DIGEST_BLOCKS);
  for (let i: u32 = 0; i < most; i++) {
    const hash = hashBytes(hashes + 8 * DIGEST_BLOCKS * i, 8 * DIGEST_BLOCKS);
    if (hash !== load<u64>(digests + UNIT * i, DIGEST_HASH)) return i;
  }
  return most;
}

/** How many of a run's digests the prompt's bytes have. */
function sameByteDigests(run: u32, at: u32, known: u32): u32 {
  const digests: u32 = load<u32>(run, RUN_DIGESTS);
  const prompt = area(BYTES) + at;
  let from: u32 = 0;
  for (let i: u32 = 0; i < known; i++) {
    const end = load<u32>(digests + UNIT * i, DIGEST_END);
    if (end > limit - at || hashBytes(prompt + from, end - from) !== load<u64>(digests + UNIT * i, DIGEST_HASH))
      return i;
    from = end;
  }
  return known;
}

/** Give a run, of which the prompt has all these blocks, its digests from number `first` on. */
function digest(run: u32, at: u32, depth: u32, first: u32, end: u32): void {
  if (!ensureDigests(run, first, end)) return;
  const digests: u32 = load<u32>(run, RUN_DIGESTS);
  const ends = area(MATCH_ENDS);
  let from: u32 = first === 0 ? 0 : load<u32>(digests + UNIT * (first - 1), DIGEST_END);
  for (let i = first; i < end; i++) {
    const to: u32 = isHashed ? from + 8 * DIGEST_BLOCKS : load<u32>(ends + 4 * (DIGEST_BLOCKS * (i + 1) - 1)) - at;
    const start: u32 = isHashed ? area(HASHES) + 8 * depth : area(BYTES) + at;
    store<u64>(digests + UNIT * i, hashBytes(start + from, to - from), DIGEST_HASH);
    store<u32>(digests + UNIT * i, to, DIGEST_END);
    store<u32>(digests + UNIT * i, 0, 12);
    from = to;
  }
  store<u16>(run, <u16>end, RUN_DIGEST_COUNT);
}

/**
 * Give a run its digests of the blocks that were just put behind it, from number `first` of the call's on, while their hashes (or bytes)
 * are at hand: the next turn's match then need not read them one by one. Not where a digest would begin before them.
 */
export function digestLaid(run: u32, place: u32, first: u32, hashed: bool): void {
  const known: u32 = load<u16>(run, RUN_DIGEST_COUNT);
  const count = load<u32>(run, RUN_LENGTH) / DIGEST_BLOCKS;
  if (count <= known || place !== <u32>(load<u32>(run, RUN_BLOCKS) + UNIT * DIGEST_BLOCKS * known)) return;
  if (((load<u32>(run, RUN_FLAGS) & FLAG_HASHED) !== 0) !== hashed) {
    if (known > 0) return;
    store<u32>(run, load<u32>(run, RUN_FLAGS) ^ FLAG_HASHED, RUN_FLAGS);
  }
  if (!ensureDigests(run, known, count)) return;
  const digests: u32 = load<u32>(run, RUN_DIGESTS);
  const ends = area(ENDS) + 4 * first;
  const data = hashed ? area(HASHES) : area(BYTES);
  let from: u32 = hashed ? 8 * first : first === 0 ? 0 : load<u32>(ends - 4);
  // What is between offsets in the run and in the call's data.
  const shift = (known === 0 ? 0 : load<u32>(digests + UNIT * (known - 1), DIGEST_END)) - from;
  for (let i = known; i < count; i++) {
    const to: u32 = hashed ? from + 8 * DIGEST_BLOCKS : load<u32>(ends + 4 * (DIGEST_BLOCKS * (i - known + 1) - 1));
    store<u64>(digests + UNIT * i, hashBytes(data + from, to - from), DIGEST_HASH);
    store<u32>(digests + UNIT * i, to + shift, DIGEST_END);
    store<u32>(digests + UNIT * i, 0, 12);
    from = to;
  }
  store<u16>(run, <u16>count, RUN_DIGEST_COUNT);
}

/** Compare from block `from` on: those before are the same. */
function compareHashes(run: u32, depth: u32, from: u32): u32 {
  const blocks: u32 = load<u32>(run, RUN_BLOCKS);
  const length = min(load<u32>(run, RUN_LENGTH), limit - depth);
  const hashes = area(HASHES) + 8 * depth;
  let i = from;
  for (; i + 4 <= length; i += 4) {
    const block = blocks + UNIT * i;
    const hash = hashes + 8 * i;
    const differs =
      (load<u64>(block) ^ load<u64>(hash)) |
      (load<u64>(block, 16) ^ load<u64>(hash, 8)) |
      (load<u64>(block, 32) ^ load<u64>(hash, 16)) |
      (load<u64>(block, 48) ^ load<u64>(hash, 24));
    if (differs !== 0) break;
  }
  while (i < length && load<u64>(blocks + UNIT * i, BLOCK_HASH) === load<u64>(hashes + 8 * i)) i++;
  return i;
}

function digestEnd(run: u32, blocks: u32): u32 {
  return load<u32>(load<u32>(run, RUN_DIGESTS) + UNIT * (blocks / DIGEST_BLOCKS - 1), DIGEST_END);
}

/** The same; MATCH_ENDS gets where each block looked at ends. */
function compareBytes(run: u32, at: u32, from: u32): u32 {
  const blocks: u32 = load<u32>(run, RUN_BLOCKS);
  const length = load<u32>(run, RUN_LENGTH);
  const prompt = area(BYTES);
  const ends = area(MATCH_ENDS);
  let end = at;
  endsFrom = 0;
  if (from > 0) {
    endsFrom = from - 1;
    end += digestEnd(run, from);
    store<u32>(ends + 4 * endsFrom, end);
  }
  for (let i = from; i < length; i++) {
    const block = blocks + UNIT * i;
    const bytes = load<u32>(block, BLOCK_BYTES);
    if (bytes > limit - end || hashBytes(prompt + end, bytes) !== load<u64>(block, BLOCK_HASH)) return i;
    end += bytes;
    store<u32>(ends + 4 * i, end);
  }
  return length;
}

/** Where the first `blocks` blocks of the run that is looked at end in the prompt. */
export function endOf(run: u32, at: u32, blocks: u32): u32 {
  if (isHashed) return 0;
  const ends = area(MATCH_ENDS);
  if (blocks <= endsFrom) {
    let end = at;
    for (let i: u32 = 0; i < endsFrom; i++) {
      end += load<u32>(load<u32>(run, RUN_BLOCKS) + UNIT * i, BLOCK_BYTES);
      store<u32>(ends + 4 * i, end);
    }
    endsFrom = 0;
  }
  return load<u32>(ends + 4 * blocks - 4);
}
