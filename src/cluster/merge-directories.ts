import { isDeepStrictEqual } from "node:util";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { createDirectoryListeners } from "./directory-listeners.ts";

/** Several directories as one; more may come and go. */
export interface MergedDirectory extends WorkerDirectory {
  /** One more, behind the others; the result takes it out. */
  add(directory: WorkerDirectory): () => void;
  /** Leave the directories it is made of. */
  close(): void;
}

/**
 * Several directories as one, in the order given. An id that two of them hold is listed once: the entry with the higher
 * epoch (the newer process), else the first one's.
 */
export function mergeDirectories(directories: readonly WorkerDirectory[]): MergedDirectory {
  const parts = new Map<symbol, { readonly directory: WorkerDirectory; leave(): void }>();
  const listeners = createDirectoryListeners();
  let listed: readonly WorkerInfo[] = [];
  const merge = (): WorkerInfo[] => {
    const byId = new Map<WorkerId, WorkerInfo>();
    for (const worker of [...parts.values()].flatMap(({ directory }) => directory.list())) {
      const known = byId.get(worker.id);
      if (known === undefined || worker.epoch > known.epoch) byId.set(worker.id, worker);
    }
    return [...byId.values()];
  };
  const changed = (): void => {
    const next = merge();
    // A change that loses to another directory's entry is none.
    if (isDeepStrictEqual(next, listed)) return;
    listed = next;
    listeners.tell(listed);
  };
  const put = (directory: WorkerDirectory): symbol => {
    const key = Symbol();
    parts.set(key, { directory, leave: directory.subscribe(changed) });
    return key;
  };
  for (const directory of directories) put(directory);
  listed = merge();
  return {
    list: () => listed,
    subscribe: (listener) => listeners.add(listener),
    add(directory) {
      const key = put(directory);
      changed();
      return () => {
        parts.get(key)?.leave();
        if (parts.delete(key)) changed();
      };
    },
    close() {
      for (const { leave } of parts.values()) leave();
    },
  };
}
