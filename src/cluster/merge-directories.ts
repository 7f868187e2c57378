import { isDeepStrictEqual } from "node:util";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { createDirectoryListeners } from "./directory-listeners.ts";

/**
 * Several directories as one, in the order given. An id that two of them hold is listed once: the entry with the higher
 * epoch (the newer process), else the first one's.
 *
 * `close()` leaves the directories it is made of.
 */
export function mergeDirectories(directories: readonly WorkerDirectory[]): WorkerDirectory & { close(): void } {
  const merge = (): WorkerInfo[] => {
    const byId = new Map<WorkerId, WorkerInfo>();
    for (const worker of directories.flatMap((directory) => directory.list())) {
      const known = byId.get(worker.id);
      if (known === undefined || worker.epoch > known.epoch) byId.set(worker.id, worker);
    }
    return [...byId.values()];
  };
  let listed: readonly WorkerInfo[] = merge();
  const listeners = createDirectoryListeners();
  const leave = directories.map((directory) =>
    directory.subscribe(() => {
      const next = merge();
      // A change that loses to another directory's entry is none.
      if (isDeepStrictEqual(next, listed)) return;
      listed = next;
      listeners.tell(listed);
    }),
  );
  return {
    list: () => listed,
    subscribe: (listener) => listeners.add(listener),
    close() {
      for (const end of leave) end();
    },
  };
}
