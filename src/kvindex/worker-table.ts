import type { WorkerId } from "../core/ids.ts";
import type { WorkerOptions, WorkerSlot } from "./prefix-index.ts";
import type { LaneTable } from "./run-tree.ts";
import { TIERS } from "./tiers.ts";
import { U64Map } from "./u64-map.ts";

/** What an index keeps of one worker. */
export interface WorkerState {
  readonly slot: WorkerSlot;
  /** Small and dense: bit number in sets of workers. Used again after the worker is gone. */
  readonly index: number;
  readonly id: WorkerId;
  readonly historyEntries: number;
  blockTokens: number;
  /** Engine name → place and tiers. */
  names: U64Map;
  /** [tiers] lane by tier, -1 where it never stored. */
  lanes: Int32Array;
  laneCount: number;
}

/** A handle is generation × 2^20 + index. */
const INDEX_RANGE = 2 ** 20;
const DEFAULT_HISTORY = 16;

/**
 * Workers and their lanes. A lane is one worker's blocks in one tier, from its start or last reset on: a reset gives the worker
 * new lanes, and what the old ones covered stops counting at once, wherever it lies. Old lanes' numbers are used again once
 * nothing in the tree mentions them.
 */
export class WorkerTable implements LaneTable {
  /** [lane] index of its worker, -1 when it is gone. */
  laneWorkers = new Int32Array(64).fill(-1);
  /** [lane] */
  laneTiers = new Uint8Array(64);
  /** By index. */
  readonly #workers: (WorkerState | undefined)[] = [];
  readonly #generations: number[] = [];
  readonly #freeIndexes: number[] = [];
  readonly #freeLanes: number[] = [];
  #lanes = 0;
  #count = 0;
  /** Lanes that are gone and may still be mentioned in the tree. */
  dying: number[] = [];

  get count(): number {
    return this.#count;
  }

  /** One more than the highest index ever used. */
  get indexes(): number {
    return this.#workers.length;
  }

  add(id: WorkerId, options: WorkerOptions): WorkerState {
    const index = this.#freeIndexes.pop() ?? this.#workers.length;
    const generation = (this.#generations[index] ?? -1) + 1;
    this.#generations[index] = generation;
    const worker: WorkerState = {
      slot: generation * INDEX_RANGE + index,
      index,
      id,
      historyEntries: options.historyEntries ?? DEFAULT_HISTORY,
      blockTokens: 0,
      names: new U64Map(),
      lanes: new Int32Array(TIERS.length).fill(-1),
      laneCount: 0,
    };
    this.#workers[index] = worker;
    this.#count++;
    return worker;
  }

  /** The worker of a handle; undefined when it is gone. */
  get(slot: WorkerSlot): WorkerState | undefined {
    const worker = this.#workers[slot % INDEX_RANGE];
    return worker?.slot === slot ? worker : undefined;
  }

  at(index: number): WorkerState | undefined {
    return this.#workers[index];
  }

  /** Live workers. */
  *all(): Generator<WorkerState> {
    for (const worker of this.#workers) if (worker !== undefined) yield worker;
  }

  drop(worker: WorkerState): void {
    this.clear(worker);
    this.#workers[worker.index] = undefined;
    this.#freeIndexes.push(worker.index);
    this.#count--;
  }

  /** Let go of a worker's names and lanes. */
  clear(worker: WorkerState): void {
    for (const lane of worker.lanes) {
      if (lane < 0) continue;
      this.laneWorkers[lane] = -1;
      this.dying.push(lane);
    }
    worker.lanes.fill(-1);
    worker.laneCount = 0;
    worker.names = new U64Map();
  }

  /** The lane of a worker's tier, made when missing. */
  lane(worker: WorkerState, tier: number): number {
    const known = worker.lanes[tier]!;
    if (known >= 0) return known;
    const lane = this.#freeLanes.pop() ?? this.#newLane();
    this.laneWorkers[lane] = worker.index;
    this.laneTiers[lane] = tier;
    worker.lanes[tier] = lane;
    worker.laneCount++;
    return lane;
  }

  #newLane(): number {
    if (this.#lanes === this.laneWorkers.length) {
      const workers = new Int32Array(2 * this.#lanes).fill(-1);
      const tiers = new Uint8Array(2 * this.#lanes);
      workers.set(this.laneWorkers);
      tiers.set(this.laneTiers);
      this.laneWorkers = workers;
      this.laneTiers = tiers;
    }
    return this.#lanes++;
  }

  isLive(lane: number): boolean {
    return this.laneWorkers[lane]! >= 0;
  }

  /** Take back lanes that nothing mentions any longer. */
  release(lanes: readonly number[]): void {
    this.#freeLanes.push(...lanes);
  }
}
