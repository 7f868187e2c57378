import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";

/** Routers tell their whole book each second; one that is silent for so long is gone. */
const SILENT_MS = 3_000;
const LOOK_MS = 1_000;

interface RouterState {
  heardAt: number;
  readonly workers: Map<WorkerId, WorkerBookings>;
}

interface Watcher {
  readonly router: string;
  /** What it has not taken yet, by router and worker: only the last word of each counts. */
  readonly behind: Map<string, { whole: boolean; readonly workers: Map<WorkerId, WorkerBookings> }>;
  wake: () => void;
}

/** Passes on what routers have in flight. A slow watcher gets the last word of each only, so nothing grows. */
export class BookingHub {
  readonly #clock: Clock;
  readonly #routers = new Map<string, RouterState>();
  readonly #watchers = new Set<Watcher>();
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  tell(news: RouterBookings): void {
    const { router, workers, whole } = news;
    let state = this.#routers.get(router);
    if (state === undefined) this.#routers.set(router, (state = { heardAt: 0, workers: new Map() }));
    state.heardAt = this.#clock.now();
    if (whole) state.workers.clear();
    for (const each of workers) state.workers.set(each.worker, each);
    this.#pass(news);
    this.#look();
  }

  async *watchOthers(router: string, signal: AbortSignal): AsyncGenerator<readonly RouterBookings[]> {
    const watcher: Watcher = { router, behind: new Map(), wake: () => {} };
    for (const [name, { workers }] of this.#routers) {
      if (name !== router) watcher.behind.set(name, { whole: true, workers: new Map(workers) });
    }
    this.#watchers.add(watcher);
    const ended = (): void => watcher.wake();
    signal.addEventListener("abort", ended);
    try {
      while (!signal.aborted) {
        if (watcher.behind.size === 0) {
          await new Promise<void>((resolve) => {
            watcher.wake = resolve;
            if (signal.aborted) resolve();
          });
          continue;
        }
        const news = [...watcher.behind].map(([name, { whole, workers }]) => ({
          router: name,
          whole,
          workers: [...workers.values()],
        }));
        watcher.behind.clear();
        yield news;
      }
    } finally {
      this.#watchers.delete(watcher);
      signal.removeEventListener("abort", ended);
    }
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #pass({ router, workers, whole }: RouterBookings): void {
    for (const watcher of this.#watchers) {
      if (watcher.router === router) continue;
      let behind = watcher.behind.get(router);
      if (behind === undefined || whole) watcher.behind.set(router, (behind = { whole, workers: new Map() }));
      for (const each of workers) behind.workers.set(each.worker, each);
      watcher.wake();
    }
  }

  /** While there are routers: forget those that are silent. */
  #look(): void {
    if (this.#cancel !== undefined || this.#routers.size === 0) return;
    this.#cancel = this.#clock.after(LOOK_MS, () => {
      this.#cancel = undefined;
      const now = this.#clock.now();
      for (const [router, { heardAt }] of this.#routers) {
        if (now - heardAt < SILENT_MS) continue;
        this.#routers.delete(router);
        this.#pass({ router, workers: [], whole: true });
      }
      this.#look();
    });
  }
}
