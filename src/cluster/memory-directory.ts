import { isDeepStrictEqual } from "node:util";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { createDirectoryListeners } from "./directory-listeners.ts";

/** A directory that its owner writes to. */
export interface MemoryDirectory extends WorkerDirectory {
  /** Add a worker, or replace the one of the same id. Nobody is told when nothing changed. */
  set(worker: WorkerInfo): void;
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
  let byId = new Map(workers.map((worker) => [worker.id, worker]));
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
      if (isDeepStrictEqual(byId.get(worker.id), worker)) return;
      byId.set(worker.id, worker);
      changed();
    },
    remove(id) {
      if (byId.delete(id)) changed();
    },
    replaceAll(next) {
      const replaced = new Map(next.map((worker) => [worker.id, worker]));
      if (isDeepStrictEqual([...replaced.values()], listed)) return;
      byId = replaced;
      changed();
    },
  };
}
