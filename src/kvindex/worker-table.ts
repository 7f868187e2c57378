import type { WorkerId } from "../core/ids.ts";
import type { CoreWorker } from "./core.ts";
import type { WorkerOptions, WorkerSlot } from "./prefix-index.ts";

/** What an index keeps of one worker. */
export interface WorkerState {
  readonly slot: WorkerSlot;
  /** Small and dense: its number in the core. Used again after the worker is gone. */
  readonly index: number;
  readonly id: WorkerId;
  readonly historyEntries: number;
  blockTokens: number;
  /** Its names and lanes; 0 when there was no memory for them. */
  core: CoreWorker;
}

/** A handle is generation × 2^20 + index. */
const INDEX_RANGE = 2 ** 20;
const DEFAULT_HISTORY = 16;

/** Workers by handle. */
export class WorkerTable {
  /** By index. */
  readonly #workers: (WorkerState | undefined)[] = [];
  readonly #generations: number[] = [];
  readonly #freeIndexes: number[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
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
      core: 0,
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
    this.#workers[worker.index] = undefined;
    this.#freeIndexes.push(worker.index);
    this.#count--;
  }
}
