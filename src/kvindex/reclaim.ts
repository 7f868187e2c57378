import { UNIT_BYTES } from "./heap.ts";
import type { History } from "./history.ts";
import { FLAG_DEAD, PLACE_MASK, RUN } from "./run-layout.ts";
import type { RunTree } from "./run-tree.ts";
import type { SpareNames } from "./spare-names.ts";
import type { WorkerState, WorkerTable } from "./worker-table.ts";

/** Eviction begins at this share of the cap and frees this share, so that the cap itself is hardly ever met. */
const HIGH_SHARE = 0.9;
const EVICT_SHARE = 0.05;
/** Runs looked at to find one to evict: the least recently used of these goes. */
const SAMPLE = 16;
/** Work a call may do besides its own: runs looked at, and name entries, for each block it brings. */
const RUNS_PER_CALL = 32;
const NAMES_PER_BLOCK = 64;
/** Name entries that one step of a sweep looks at, about. */
const PART_ENTRIES = 4096;
/**
 * Memory that a block takes at most, on the average of a store: a record, a name, a run of its own (160 bytes), and its share
 * of the parts of the name map (48 KiB each) that are halved: they fill evenly, so they are halved one soon after the other.
 */
const WORST_BLOCK_BYTES = 640;
/** What a store of few blocks may need besides: a part of the names, one of the children, other tables. */
const SLACK_BYTES = 114_688;

/** A pass over all names of all workers, to delete those that lead to dead runs. */
interface NameSweep {
  readonly dead: readonly number[];
  readonly workers: readonly WorkerState[];
  worker: number;
  cursor: number;
}

/** A pass over all runs, to drop covers of lanes that are gone. It goes from the last to the first: runs that are freed are replaced by the last. */
interface RunSweep {
  readonly lanes: readonly number[];
  next: number;
}

/**
 * Gives memory back bit by bit, with each call a little: what workers that are gone held, and what was evicted to stay below
 * the cap.
 */
export class Reclaimer {
  evictedBlocks = 0;
  readonly #tree: RunTree;
  readonly #workers: WorkerTable;
  readonly #spares: SpareNames;
  readonly #history: History;
  readonly #capBytes: number;
  /** Evicted runs that names may still lead to. */
  #dead: number[] = [];
  #names: NameSweep | undefined;
  #runs: RunSweep | undefined;
  /** Where the search for a run to evict goes on. */
  #hand = 0;
  #credit = 0;
  /** Bytes that may still be used before the memory in use is counted again. */
  #allowance = 0;

  constructor(tree: RunTree, workers: WorkerTable, spares: SpareNames, history: History, capBytes: number) {
    this.#tree = tree;
    this.#workers = workers;
    this.#spares = spares;
    this.#history = history;
    this.#capBytes = capBytes;
  }

  /** Memory in use, in bytes. */
  usedBytes(): number {
    let bytes = this.#tree.heap.used * UNIT_BYTES + this.#tree.bytes + this.#history.bytes;
    for (const worker of this.#workers.all()) bytes += worker.names.bytes;
    return bytes;
  }

  /** Do the share of work that a call with so many blocks owes. */
  step(blocks: number): void {
    if (this.#runs !== undefined || this.#workers.dying.length > 0) this.#sweepRuns(RUNS_PER_CALL + blocks);
    if (this.#names === undefined && this.#dead.length === 0) return;
    this.#credit += blocks * NAMES_PER_BLOCK;
    while (this.#credit >= PART_ENTRIES && this.#sweepNames()) this.#credit -= PART_ENTRIES;
  }

  /** Make sure that so many blocks can be stored. False when the cap does not allow it, whatever is evicted. */
  makeRoomForBlocks(blocks: number): boolean {
    return this.makeRoom(blocks * WORST_BLOCK_BYTES + SLACK_BYTES);
  }

  /** Make sure that so many bytes more may be used. False when the cap does not allow it, whatever is evicted. */
  makeRoom(bytes: number): boolean {
    if (bytes <= this.#allowance) {
      this.#allowance -= bytes;
      return true;
    }
    const high = this.#capBytes * HIGH_SHARE;
    let used = this.usedBytes();
    if (used + bytes >= high) {
      this.#shrink(bytes, Math.max(0, Math.min(this.#capBytes * (HIGH_SHARE - EVICT_SHARE), high - bytes)));
      used = this.usedBytes();
    }
    this.#allowance = Math.max(0, high - used - bytes);
    return used + bytes < this.#capBytes;
  }

  /** Evict down to `target`, at once only as far as `bytes` more would not fit below the cap. */
  #shrink(bytes: number, target: number): void {
    const fits = () => this.usedBytes() + bytes < this.#capBytes;
    while (this.#history.bytes > this.#capBytes / 4 && this.#history.evictOldest());
    if (this.#dead.length === 0 && this.#names === undefined) this.#evict(this.usedBytes() - target);
    if (fits()) return;
    this.#finish();
    if (fits()) return;
    this.#evict(this.usedBytes() - target);
    this.#finish();
    while (!fits() && this.#history.evictOldest());
  }

  /** Let the least recently used leaves go until about so many bytes will come free. */
  #evict(bytes: number): void {
    const rounds = this.#tree.runCount;
    for (let round = 0; round < rounds && bytes > 0 && this.#tree.runCount > 0; round++) {
      const run = this.#oldestOfSample();
      if (run === 0) continue;
      const w = this.#tree.heap.words;
      bytes -= w[4 * run + RUN.room]! * UNIT_BYTES + 200;
      this.#countEvicted(run);
      this.#spares.forgetRun(this.#tree, run);
      this.#tree.kill(run);
      this.#dead.push(run);
    }
  }

  #oldestOfSample(): number {
    const w = this.#tree.heap.words;
    const count = this.#tree.runCount;
    let oldest = 0;
    for (let i = 0; i < Math.min(SAMPLE, count); i++) {
      this.#hand = this.#hand + 1 < count ? this.#hand + 1 : 0;
      const run = this.#tree.runAt(this.#hand);
      if (w[4 * run + RUN.children]! > 0 || (w[4 * run + RUN.flags]! & FLAG_DEAD) !== 0) continue;
      if (oldest === 0 || w[4 * run + RUN.touched]! < w[4 * oldest + RUN.touched]!) oldest = run;
    }
    return oldest;
  }

  #countEvicted(run: number): void {
    const w = this.#tree.heap.words;
    const covers = w[4 * run + RUN.covers]!;
    for (let i = 0; i < w[4 * run + RUN.coverCount]!; i++) {
      const fromTo = w[4 * (covers + i) + 1]!;
      if (this.#workers.isLive(w[4 * (covers + i)]!)) this.evictedBlocks += (fromTo >>> 16) - (fromTo & 0xffff);
    }
  }

  /** Do all name sweeps that are due, at once. */
  #finish(): void {
    while (this.#sweepNames());
    while (this.#workers.dying.length > 0 || this.#runs !== undefined) this.#sweepRuns(Infinity);
  }

  /** One step of the pass over names; false when there is nothing to do. */
  #sweepNames(): boolean {
    if (this.#names === undefined) {
      if (this.#dead.length === 0) return false;
      this.#names = { dead: this.#dead, workers: [...this.#workers.all()], worker: 0, cursor: 0 };
      this.#dead = [];
    }
    const sweep = this.#names;
    const worker = sweep.workers[sweep.worker];
    if (worker === undefined) {
      for (const run of sweep.dead) this.#tree.bury(run);
      this.#names = undefined;
      return true;
    }
    sweep.cursor = worker.names.sweep(sweep.cursor, (value) => this.#tree.isDead(this.#tree.runOf(value & PLACE_MASK)));
    if (sweep.cursor < 0) {
      sweep.cursor = 0;
      sweep.worker++;
    }
    return true;
  }

  #sweepRuns(budget: number): void {
    this.#runs ??= { lanes: this.#workers.dying.splice(0), next: this.#tree.runCount - 1 };
    const sweep = this.#runs;
    for (; budget > 0 && sweep.next >= 0; budget--) {
      if (sweep.next >= this.#tree.runCount) sweep.next = this.#tree.runCount - 1;
      else this.#tree.dropDeadCovers(this.#tree.runAt(sweep.next--));
    }
    if (sweep.next >= 0) return;
    this.#workers.release(sweep.lanes);
    this.#runs = undefined;
  }
}
