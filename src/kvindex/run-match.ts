import type { BlockHash } from "./block-hash.ts";
import { UNIT_BYTES } from "./heap.ts";
import { LENGTH, RUN } from "./run-layout.ts";
import type { RunTree } from "./run-tree.ts";
import type { Scratch } from "./scratch.ts";
import { TIERS } from "./tiers.ts";
import type { WorkerTable } from "./worker-table.ts";

/** The longest chain of one worker. */
export interface Best {
  blocks: number;
  bytes: number;
  tier: number;
}

/** Where a worker's chain lies in one run: `held` blocks from the run's first block on, `depth` blocks before it. */
export interface PathStep {
  /** Place of the run's first block. */
  readonly blocks: number;
  readonly held: number;
  readonly depth: number;
}

/** A run to visit: how far into the prompt it begins, and the set of workers that hold all before it. */
interface Pending {
  run: number;
  at: number;
  depth: number;
  set: number;
}

/**
 * Finds what each worker holds of a prompt. A walk from the root: at each run's end the next block's bytes are hashed once
 * for each length that a child begins with; along a run, block by block in WebAssembly. Several children may fit
 * (workers with other block sizes), so pending runs are kept on a stack.
 *
 * No allocation a run: sets of workers and results are typed arrays that are used again.
 */
export class Matcher {
  readonly #tree: RunTree;
  readonly #workers: WorkerTable;
  readonly #hash: BlockHash;
  readonly #scratch: Scratch;

  /** Sets of workers, `#setWords` words each; set 0 is all workers. */
  #sets = new Uint32Array(64);
  #setWords = 1;
  #setCount = 0;
  /** By set and worker: the slowest tier so far. Only valid where the set has the worker. */
  #tiers = new Uint8Array(2048);
  readonly #stack: Pending[] = [];
  #depth = 0;

  /** [workers] the best so far; 0 blocks: none. */
  #blocks = new Uint32Array(32);
  #bytes = new Uint32Array(32);
  #slowest = new Uint8Array(32);
  /** Workers found. */
  #found = new Uint32Array(32);
  #foundCount = 0;
  /** [workers] the visit that last looked at all its lanes. */
  #looked = new Uint32Array(32);
  #visit = 0;

  constructor(tree: RunTree, workers: WorkerTable, hash: BlockHash, scratch: Scratch) {
    this.#tree = tree;
    this.#workers = workers;
    this.#hash = hash;
    this.#scratch = scratch;
  }

  /** Match a prompt below a root; `tell` is called for each worker that holds at least one block. */
  match(root: number, prompt: Uint8Array, stamp: number, tell: (index: number, best: Best) => void): void {
    this.#begin();
    this.#walk(root, prompt, stamp, -1, undefined);
    for (let i = 0; i < this.#foundCount; i++) {
      const index = this.#found[i]!;
      tell(index, { blocks: this.#blocks[index]!, bytes: this.#bytes[index]!, tier: this.#slowest[index]! });
      this.#blocks[index] = 0;
    }
  }

  /** All runs that one worker's chains for this prompt lie in. */
  path(root: number, prompt: Uint8Array, stamp: number, index: number): readonly PathStep[] {
    this.#begin();
    const steps: PathStep[] = [];
    this.#walk(root, prompt, stamp, index, steps);
    for (let i = 0; i < this.#foundCount; i++) this.#blocks[this.#found[i]!] = 0;
    return steps;
  }

  #begin(): void {
    const workers = Math.max(1, this.#workers.indexes);
    if (workers > this.#blocks.length) {
      this.#blocks = new Uint32Array(2 * workers);
      this.#bytes = new Uint32Array(2 * workers);
      this.#slowest = new Uint8Array(2 * workers);
      this.#found = new Uint32Array(2 * workers);
      this.#looked = new Uint32Array(2 * workers);
    }
    this.#setWords = Math.ceil(workers / 32);
    this.#setCount = 0;
    this.#foundCount = 0;
    this.#depth = 0;
  }

  /** A new set, its words not cleared. */
  #newSet(): number {
    const set = this.#setCount++;
    if (this.#setCount * this.#setWords > this.#sets.length) {
      const sets = new Uint32Array(2 * this.#setCount * this.#setWords);
      sets.set(this.#sets);
      this.#sets = sets;
    }
    if (this.#setCount * this.#setWords * 32 > this.#tiers.length) {
      const tiers = new Uint8Array(2 * this.#setCount * this.#setWords * 32);
      tiers.set(this.#tiers);
      this.#tiers = tiers;
    }
    return set;
  }

  /** @param only - a worker's index, or -1 for all */
  #walk(root: number, prompt: Uint8Array, stamp: number, only: number, steps: PathStep[] | undefined): void {
    if (root === 0 || prompt.length === 0 || !this.#scratch.loadPrompt(prompt)) return;
    const all = this.#newSet();
    const first = all * this.#setWords;
    this.#sets.fill(only < 0 ? 0xffffffff : 0, first, first + this.#setWords);
    if (only >= 0) this.#sets[first + (only >>> 5)]! |= 1 << (only & 31);
    this.#tiers.fill(0, first * 32, (first + this.#setWords) * 32);
    // A block must end before the prompt does: the last token is always computed anew.
    const limit = prompt.length - 1;
    this.#pushChildren(root, 0, limit, 0, all);
    while (this.#depth > 0) {
      const { run, at, depth, set } = this.#stack[--this.#depth]!;
      this.#tree.heap.words[4 * run + RUN.touched] = stamp;
      this.#visitRun(run, at, limit, depth, set, steps);
    }
  }

  /** Push those children of a run whose first block is the prompt's next. */
  #pushChildren(run: number, at: number, limit: number, depth: number, set: number): void {
    const w = this.#tree.heap.words;
    const { records, bytesAt } = this.#scratch;
    for (let node = w[4 * run + RUN.lengths]!; node !== 0; node = w[4 * node + LENGTH.next]!) {
      const bytes = w[4 * node + LENGTH.bytes]!;
      if (bytes > limit - at) continue;
      this.#hash.hashOne(bytesAt + at, bytes, records * UNIT_BYTES);
      w[4 * records + 2] = bytes;
      const child = this.#tree.findChild(run, records);
      if (child !== 0) this.#push(child, at, depth, set);
    }
  }

  #push(run: number, at: number, depth: number, set: number): void {
    const pending = this.#stack[this.#depth];
    if (pending === undefined) this.#stack[this.#depth] = { run, at, depth, set };
    else {
      pending.run = run;
      pending.at = at;
      pending.depth = depth;
      pending.set = set;
    }
    this.#depth++;
  }

  #visitRun(run: number, at: number, limit: number, depth: number, set: number, steps: PathStep[] | undefined): void {
    const length = this.#tree.heap.words[4 * run + RUN.length]!;
    if (!this.#scratch.ensureEnds(length)) return;
    const w = this.#tree.heap.words; // after ensureEnds(), which may move it
    const { bytesAt, endsAt } = this.#scratch;
    const blocks = w[4 * run + RUN.blocks]!;
    const same = this.#hash.matchBlocks(bytesAt + at, bytesAt + limit, blocks * UNIT_BYTES, length, endsAt);
    const next = this.#newSet();
    this.#sets.fill(0, next * this.#setWords, (next + 1) * this.#setWords);
    this.#visit++;
    const covers = w[4 * run + RUN.covers]!;
    const end = 4 * (covers + w[4 * run + RUN.coverCount]!);
    let some = false;
    for (let cover = 4 * covers; cover < end; cover += 4) {
      const index = this.#workers.laneWorkers[w[cover]!]!;
      if (index < 0 || (this.#sets[set * this.#setWords + (index >>> 5)]! & (1 << (index & 31))) === 0) continue;
      let held: number;
      let tier = this.#tiers[set * this.#setWords * 32 + index]!;
      if (this.#workers.at(index)!.laneCount === 1) {
        const fromTo = w[cover + 1]!;
        held = (fromTo & 0xffff) === 0 ? Math.min(fromTo >>> 16, w[cover + 2]!, same) : 0;
        tier = Math.max(tier, this.#workers.laneTiers[w[cover]!]!);
      } else {
        if (this.#looked[index] === this.#visit) continue;
        this.#looked[index] = this.#visit;
        held = this.#heldInTiers(4 * covers, end, index, same);
        tier = Math.max(tier, this.#tierOfHeld);
      }
      if (held === 0) continue;
      const bytes = w[endsAt / 4 + held - 1]! - bytesAt;
      this.#consider(index, depth + held, bytes, tier);
      steps?.push({ blocks, held, depth });
      if (held < length) continue;
      some = true;
      this.#sets[next * this.#setWords + (index >>> 5)]! |= 1 << (index & 31);
      this.#tiers[next * this.#setWords * 32 + index] = tier;
    }
    if (some) this.#pushChildren(run, w[endsAt / 4 + length - 1]! - bytesAt, limit, depth + length, next);
    else this.#setCount--;
  }

  /** The slowest tier that the last `#heldInTiers()` counted. */
  #tierOfHeld = 0;

  /**
   * How many of a run's first `same` blocks a worker with several lanes holds, the fastest tiers tried first: with each
   * slower one allowed the chain may reach farther.
   */
  #heldInTiers(first: number, end: number, index: number, same: number): number {
    const w = this.#tree.heap.words;
    let held = 0;
    this.#tierOfHeld = 0;
    for (let tier = 0; tier < TIERS.length && held < same; tier++) {
      const before = held;
      for (let again = true; again; ) {
        again = false;
        for (let cover = first; cover < end; cover += 4) {
          const lane = w[cover]!;
          if (this.#workers.laneWorkers[lane] !== index || this.#workers.laneTiers[lane]! > tier) continue;
          const fromTo = w[cover + 1]!;
          const to = Math.min(fromTo >>> 16, w[cover + 2]!, same);
          if ((fromTo & 0xffff) > held || to <= held) continue;
          held = to;
          again = true;
        }
      }
      if (held > before) this.#tierOfHeld = tier;
    }
    return held;
  }

  /** Keep the better of two chains: more blocks, then more bytes, then the faster tier. */
  #consider(index: number, blocks: number, bytes: number, tier: number): void {
    const had = this.#blocks[index]!;
    if (had === 0) this.#found[this.#foundCount++] = index;
    if (blocks < had) return;
    if (
      blocks === had &&
      (bytes < this.#bytes[index]! || (bytes === this.#bytes[index] && tier >= this.#slowest[index]!))
    )
      return;
    this.#blocks[index] = blocks;
    this.#bytes[index] = bytes;
    this.#slowest[index] = tier;
  }
}
