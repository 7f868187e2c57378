import { isDeepStrictEqual } from "node:util";
import type { WorkerId } from "../core/ids.ts";
import { rankId, rankWorkers, type WorkerDirectory, type WorkerInfo } from "../core/worker.ts";
import { createDirectoryListeners } from "./directory-listeners.ts";

/** A directory that its owner writes to. */
export interface MemoryDirectory extends WorkerDirectory {
  /** Add a worker, or replace the one of the same id; its data-parallel ranks are listed each. Nobody is told when nothing changed. */
  set(worker: WorkerInfo): void;
  /** Take off a worker, with its ranks. */
  remove(id: WorkerId): void;
  /** Make these the whole list; subscribers are told once. */
  replaceAll(workers: readonly WorkerInfo[]): void;
}

/**
 * The directory of one process: a map in memory, listed in the order in which workers came.
 *
 * Subscribers run before `set` returns and get a list that never changes afterwards.
 */
export function createMemoryDirectory(workers: readonly WorkerInfo[] = []): MemoryDirectory {
  let byId = new Map(workers.flatMap(rankWorkers).map((worker) => [worker.id, worker]));
  let listed: readonly WorkerInfo[] = [...byId.values()];
  const listeners = createDirectoryListeners();
  const changed = (): void => {
    listed = [...byId.values()];
    listeners.tell(listed);
  };
  return {
    list: () => listed,
    subscribe: (listener) => listeners.add(listener),
    set(worker) {
      const ranks = rankWorkers(worker);
      const fewer = dropRanks(byId, worker.id, ranks.length);
      if (!fewer && ranks.every((rank) => isDeepStrictEqual(byId.get(rank.id), rank))) return;
      for (const rank of ranks) byId.set(rank.id, rank);
      changed();
    },
    remove(id) {
      if (dropRanks(byId, id, 0)) changed();
    },
    replaceAll(next) {
      const replaced = new Map(next.flatMap(rankWorkers).map((worker) => [worker.id, worker]));
      if (isDeepStrictEqual([...replaced.values()], listed)) return;
      byId = replaced;
      changed();
    },
  };
}

/** Delete an engine's ranks from one on. @returns whether there were any */
function dropRanks(byId: Map<WorkerId, WorkerInfo>, id: WorkerId, from: number): boolean {
  let dropped = false;
  for (let index = from; byId.delete(rankId(id, index)); index++) dropped = true;
  return dropped;
}
