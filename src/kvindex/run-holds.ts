import { NO_LIMIT, RUN } from "./run-layout.ts";
import type { RunTree } from "./run-tree.ts";

/**
 * Let a lane hold `count` blocks from `place` on, which lie in one run. Splits the run where a hole would be. Corrections of
 * these blocks are lifted.
 * @returns false when there is no memory for it: nothing is held then that was not before
 */
export function holdBlocks(tree: RunTree, lane: number, place: number, count: number, stamp: number): boolean {
  for (;;) {
    const run = tree.runOf(place);
    const from = place - tree.heap.words[4 * run + RUN.blocks]!;
    const to = from + count;
    const cover = tree.findCover(run, lane);
    if (cover < 0) return tree.addCover(run, lane, from, to, stamp);
    const w = tree.heap.words;
    const first = w[cover + 1]! & 0xffff;
    const last = w[cover + 1]! >>> 16;
    const limit = w[cover + 2]!;
    // Each split leaves the run that is looked at next without the cause of the split: it ends after three rounds.
    const cut = from > last || (limit !== NO_LIMIT && from > limit) ? from : to < first ? to : 0;
    if (cut > 0) {
      if (tree.split(run, cut) === 0) return false;
      continue;
    }
    const end = Math.max(last, to);
    w[cover + 1] = Math.min(first, from) | (end << 16);
    if (limit !== NO_LIMIT && to > limit) w[cover + 2] = to >= last ? NO_LIMIT : to;
    w[cover + 3] = stamp;
    return true;
  }
}

/** Let go of one block that a lane holds; of none when it does not. Memory that nobody needs any longer is freed. */
export function releaseBlock(tree: RunTree, lane: number, place: number): void {
  for (;;) {
    const run = tree.runOf(place);
    const cover = tree.findCover(run, lane);
    if (cover < 0) return;
    const w = tree.heap.words;
    const block = place - w[4 * run + RUN.blocks]!;
    let from = w[cover + 1]! & 0xffff;
    let to = w[cover + 1]! >>> 16;
    if (block < from || block >= to) return;
    if (block === to - 1) to--;
    else if (block === from) from++;
    else {
      if (tree.split(run, block) !== 0) continue;
      // No memory to split: keep it held, so that nothing dangles, and hide it, so that it does not count.
      w[cover + 2] = Math.min(w[cover + 2]!, block);
      return;
    }
    const length = w[4 * run + RUN.length]!;
    if (from === to)
      tree.dropCover(run, 0); // findCover() has brought it to the front
    else {
      w[cover + 1] = from | (to << 16);
      const limit = w[cover + 2]!;
      if (limit !== NO_LIMIT) w[cover + 2] = limit >= to ? NO_LIMIT : Math.max(limit, from);
    }
    if (from === to || block === length - 1) tree.trim(run);
    return;
  }
}

/**
 * Hide what the lanes hold of blocks [from, to) from `start` on, all in one run. Those stored after `since` are left alone.
 * @returns whether anything was hidden
 */
export function hideBlocks(
  tree: RunTree,
  start: number,
  from: number,
  to: number,
  isOurs: (lane: number) => boolean,
  since: number,
): boolean {
  let run = tree.runOf(start);
  // What lies behind is not on this path's account: it stays as it is.
  if (to < tree.heap.words[4 * run + RUN.length]!) {
    run = tree.split(run, to);
    if (run === 0) return false;
  }
  const w = tree.heap.words;
  const covers = w[4 * run + RUN.covers]!;
  let hidden = false;
  for (let cover = 4 * covers; cover < 4 * (covers + w[4 * run + RUN.coverCount]!); cover += 4) {
    const end = Math.min(w[cover + 1]! >>> 16, w[cover + 2]!);
    const first = Math.max(w[cover + 1]! & 0xffff, from);
    if (end <= first || w[cover + 3]! > since || !isOurs(w[cover]!)) continue;
    w[cover + 2] = first;
    hidden = true;
  }
  return hidden;
}
