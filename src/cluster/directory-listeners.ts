import type { WorkerInfo } from "../core/worker.ts";

type Listener = (workers: readonly WorkerInfo[]) => void;

/** Who wants to hear of changes. A listener may leave, or join, while it is being told. */
export interface DirectoryListeners {
  add(listener: Listener): () => void;
  tell(workers: readonly WorkerInfo[]): void;
  readonly size: number;
}

export function createDirectoryListeners(): DirectoryListeners {
  // Wrapped, so that the same function may subscribe twice and leave once.
  const entries = new Set<{ readonly listener: Listener }>();
  return {
    add(listener) {
      const entry = { listener };
      entries.add(entry);
      return () => void entries.delete(entry);
    },
    tell(workers) {
      for (const entry of [...entries]) if (entries.has(entry)) entry.listener(workers);
    },
    get size() {
      return entries.size;
    },
  };
}
