import type { Clock } from "../core/clock.ts";
import { isCgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import type { KvClient } from "../wire/kv-client.ts";

export interface KvRegistrationOptions {
  readonly directory: WorkerDirectory;
  readonly client: Pick<KvClient, "register" | "unregister">;
  readonly clock: Clock;
  readonly log: Log;
  /** All workers are registered again this often: a kvcached that was restarted knows none. */
  readonly everyMs: number;
}

/** Pause after a change, so that several changes make one round. */
const SETTLE_MS = 20;

/**
 * Keep kvcached told of the directory's workers, in the background and for ever: it may be started later, or again. `close()`
 * takes them off, if it is there.
 */
export function registerWithKvcached(options: KvRegistrationOptions): { close(): Promise<void> } {
  const { directory, client, clock, log } = options;
  const known = new Map<WorkerId, WorkerInfo>();
  let closed = false;
  let reachable: boolean | undefined;
  let round: Promise<void> | undefined;
  let cancel = (): void => {};

  const tell = async (all: boolean): Promise<void> => {
    const listed = directory.list();
    for (const worker of listed) {
      if (!all && known.get(worker.id) === worker) continue;
      await client.register(worker);
      known.set(worker.id, worker);
    }
    const here = new Set(listed.map((worker) => worker.id));
    for (const id of known.keys()) {
      if (here.has(id)) continue;
      await client.unregister(id);
      known.delete(id);
    }
  };
  const attempt = async (all: boolean): Promise<void> => {
    try {
      await tell(all);
      if (reachable === false) log.info("kvcached is reached again, engines are registered");
      reachable = true;
    } catch (err) {
      // Without it the router has no knowledge of prefixes, and still works: said once, not at each try.
      if (reachable !== false)
        log.warn("kvcached is not reached; engines are registered once it is", { err: reasonOf(err) });
      reachable = false;
    }
  };
  const schedule = (ms: number, all: boolean): void => {
    cancel();
    if (closed) return;
    cancel = clock.after(ms, () => {
      round = attempt(all).finally(() => schedule(options.everyMs, true));
    });
  };
  const leave = directory.subscribe(() => schedule(SETTLE_MS, false));
  schedule(0, true);

  return {
    async close() {
      closed = true;
      leave();
      cancel();
      await round;
      await Promise.all([...known.keys()].map((id) => client.unregister(id).catch(() => {})));
    },
  };
}

const reasonOf = (err: unknown): string => (isCgnError(err) || err instanceof Error ? err.message : String(err));
