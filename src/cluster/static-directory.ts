import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";

/** A list that never changes: `state_backend = "static"`, or endpoints given on the command line. */
export function createStaticDirectory(workers: readonly WorkerInfo[]): WorkerDirectory {
  const listed = [...new Map(workers.map((worker) => [worker.id, worker])).values()];
  return { list: () => listed, subscribe: () => () => {} };
}
