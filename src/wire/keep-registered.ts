import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import type { KvClient } from "./kv-client.ts";

export interface KeepRegisteredOptions {
  readonly client: Pick<KvClient, "register" | "unregister">;
  readonly directory: WorkerDirectory;
  readonly clock: Clock;
  /** All are told again so often, since a kvcached that was restarted knows nobody. Default 5 s. */
  readonly everyMs?: number;
  /** A call failed; told each time. */
  failed(error: unknown): void;
}

/**
 * Keep a directory's workers registered with a kvcached elsewhere, as they come, change and go. Those that are down are
 * unregistered: they hold nothing. Telling the same worker again changes nothing there.
 * @returns ends it; what is registered stays
 */
export function keepRegistered(options: KeepRegisteredOptions): () => void {
  const { client, directory, clock, everyMs = 5_000, failed } = options;
  let known = new Set<WorkerId>();
  let cancel = () => {};
  const tell = (workers: readonly WorkerInfo[]) => {
    const alive = workers.filter((worker) => worker.state !== "down");
    const now = new Set(alive.map((worker) => worker.id));
    for (const id of known) if (!now.has(id)) client.unregister(id).catch(failed);
    for (const worker of alive) client.register(worker).catch(failed);
    known = now;
  };
  const again = () => {
    tell(directory.list());
    cancel = clock.after(everyMs, again);
  };
  const end = directory.subscribe(tell);
  again();
  return () => {
    end();
    cancel();
  };
}
