import type { Core } from "./core.ts";
import type { History } from "./history.ts";
import type { RootTable } from "./root-table.ts";
import type { WorkerState } from "./worker-table.ts";

export interface LoadedChunk {
  readonly blockTokens: number;
  readonly blocks: number;
}

export class Snapshots {
  constructor(_core: Core, _roots: RootTable, _history: History, _seed: number) {}
  finish(_worker: WorkerState): void {}
  save(_worker: WorkerState): Iterable<Uint8Array> {
    return [];
  }
  read(_worker: WorkerState, _chunk: Uint8Array): LoadedChunk | undefined {
    return undefined;
  }
  place(_worker: WorkerState, _chunk: LoadedChunk, _stamp: number): { orphans: number; dropped: number } {
    return { orphans: 0, dropped: 0 };
  }
}
