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
/** Pause after a failure. */
const RETRY_MS = 1_000;
/** Failures in a row before it is said. */
const SAY_AFTER = 5;

/**
 * Keep kvcached told of the directory's workers, in the background and for ever: it may be started later, or again. `close()`
 * takes them off, if it is there, but for those that run on.
 */
export function registerWithKvcached(options: KvRegistrationOptions): {
  close(runOn?: readonly WorkerId[]): Promise<void>;
} {
  const { directory, client, clock, log } = options;
  const known = new Map<WorkerId, WorkerInfo>();
  let closed = false;
  let failures = 0;
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
      if (failures >= SAY_AFTER) log.info("kvcached is reached, engines are registered");
      failures = 0;
    } catch (err) {
      failures++;
      // Parts start in any order, so not at once; and once only, not at each try. Without it the router still works.
      if (failures === SAY_AFTER)
        log.warn("no kvcached: engines are registered once it is there", { err: reasonOf(err) });
    }
  };
  const schedule = (ms: number, all: boolean): void => {
    cancel();
    if (closed) return;
    cancel = clock.after(ms, () => {
      round = attempt(all).finally(() => {
        schedule(failures > 0 ? Math.min(RETRY_MS, options.everyMs) : options.everyMs, true);
      });
    });
  };
  const leave = directory.subscribe(() => schedule(SETTLE_MS, false));
  schedule(0, true);

  return {
    async close(runOn = []) {
      closed = true;
      leave();
      cancel();
      await round;
      const gone = [...known.keys()].filter((id) => !runOn.includes(id));
      await Promise.all(gone.map((id) => client.unregister(id).catch(() => {})));
    },
  };
}

const reasonOf = (err: unknown): string => (isCgnError(err) || err instanceof Error ? err.message : String(err));
