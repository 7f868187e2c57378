import { FLAG_ROOT, MAX_RUN, RUN } from "./run-layout.ts";
import type { RunTree } from "./run-tree.ts";

/** Room of a run that is made for a block or two, as generation stores them: the next ones are appended. */
const SMALL_STORE = 8;
const MAX_ROOM_AHEAD = 32;

/**
 * Put up to `count` blocks, their records at `record`, behind the end of a run: into its own room, else into a new child.
 * Nobody holds them yet.
 * @returns place of the first, the others follow it to the run's end; 0 when there is no memory
 */
export function appendBlocks(tree: RunTree, run: number, record: number, count: number): number {
  const w = tree.heap.words;
  const length = w[4 * run + RUN.length]!;
  const spare = Math.min(w[4 * run + RUN.room]!, MAX_RUN) - length;
  if (spare <= 0 || w[4 * run + RUN.children]! > 0 || (w[4 * run + RUN.flags]! & FLAG_ROOT) !== 0) {
    return appendChild(tree, run, record, Math.min(count, MAX_RUN));
  }
  const fits = Math.min(spare, count);
  const place = w[4 * run + RUN.blocks]! + length;
  write(w, place, record, fits, run);
  w[4 * run + RUN.length] = length + fits;
  return place;
}

function appendChild(tree: RunTree, run: number, record: number, count: number): number {
  const { heap } = tree;
  const length = heap.words[4 * run + RUN.length]!;
  const room = count >= SMALL_STORE ? count : Math.min(MAX_ROOM_AHEAD, Math.max(SMALL_STORE, 2 * length));
  const place = heap.alloc(room);
  if (place === 0) return 0;
  const child = tree.newRun(place, count, room, run);
  if (child === 0) {
    heap.free(place, room);
    return 0;
  }
  write(heap.words, place, record, count, child);
  if (tree.attach(child)) return place;
  tree.discard(child);
  return 0;
}

/** By hand: copyWithin() costs more for the few blocks that most stores bring. */
function write(w: Uint32Array, place: number, record: number, count: number, run: number): void {
  for (let to = 4 * place, from = 4 * record; to < 4 * (place + count); to += 4, from += 4) {
    w[to] = w[from]!;
    w[to + 1] = w[from + 1]!;
    w[to + 2] = w[from + 2]!;
    w[to + 3] = run;
  }
}
