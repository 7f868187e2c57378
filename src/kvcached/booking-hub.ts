import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";

/** Routers tell their whole book each second; one that is silent for so long is gone. */
const SILENT_MS = 3_000;
const LOOK_MS = 1_000;
/** A turn that its router does not end ends itself after so long. */
const TURN_MS = 20;

interface RouterState {
  heardAt: number;
  readonly workers: Map<WorkerId, WorkerBookings>;
}

interface Behind {
  readonly whole: boolean;
  readonly gone: boolean;
  readonly workers: Map<WorkerId, WorkerBookings>;
}

interface Watcher {
  readonly router: string;
  /** What it has not taken yet, by router and worker: only the last word of each counts. */
  readonly behind: Map<string, Behind>;
  wake: () => void;
}

/** Passes on what routers have in flight. A slow watcher gets the last word of each only, so nothing grows. */
export class BookingHub {
  readonly #clock: Clock;
  readonly #routers = new Map<string, RouterState>();
  readonly #watchers = new Set<Watcher>();
  #cancel: (() => void) | undefined;
  /** Who may choose now, and what ends its turn when it does not say. */
  #turn: { readonly router: string; readonly cancel: () => void } | undefined;
  readonly #turns: { readonly router: string; readonly begin: () => void }[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  tell(news: RouterBookings, endsTurn = false): void {
    const { router, workers, whole } = news;
    let state = this.#routers.get(router);
    if (state === undefined) this.#routers.set(router, (state = { heardAt: 0, workers: new Map() }));
    state.heardAt = this.#clock.now();
    if (whole) state.workers.clear();
    for (const each of workers) state.workers.set(each.worker, each);
    this.#pass(news);
    this.#look();
    if (endsTurn && this.#turn?.router === router) this.#endTurn();
  }

  /** In the order in which they ask. */
  takeTurn(router: string, signal: AbortSignal): Promise<readonly RouterBookings[]> {
    return new Promise((resolve) => {
      const begin = (): void => {
        signal.removeEventListener("abort", leave);
        this.#turn = { router, cancel: this.#clock.after(TURN_MS, () => this.#endTurn()) };
        resolve(this.#othersOf(router));
      };
      const turn = { router, begin };
      const leave = (): void => {
        const at = this.#turns.indexOf(turn);
        if (at >= 0) this.#turns.splice(at, 1);
        resolve([]);
      };
      signal.addEventListener("abort", leave);
      this.#turns.push(turn);
      if (this.#turn === undefined) this.#nextTurn();
    });
  }

  #endTurn(): void {
    this.#turn?.cancel();
    this.#turn = undefined;
    this.#nextTurn();
  }

  #nextTurn(): void {
    this.#turns.shift()?.begin();
  }

  #othersOf(router: string): RouterBookings[] {
    return [...this.#routers]
      .filter(([name]) => name !== router)
      .map(([name, { workers }]) => ({ router: name, workers: [...workers.values()], whole: true }));
  }

  async *watchOthers(router: string, signal: AbortSignal): AsyncGenerator<readonly RouterBookings[]> {
    const watcher: Watcher = { router, behind: new Map(), wake: () => {} };
    for (const each of this.#othersOf(router)) {
      const workers = new Map(each.workers.map((book) => [book.worker, book]));
      watcher.behind.set(each.router, { whole: true, gone: false, workers });
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
        const news = [...watcher.behind].map(([name, { whole, gone, workers }]) => ({
          router: name,
          whole,
          workers: [...workers.values()],
          ...(gone ? { gone } : {}),
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
    this.#turn?.cancel();
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #pass({ router, workers, whole, gone = false }: RouterBookings): void {
    for (const watcher of this.#watchers) {
      if (watcher.router === router) continue;
      let behind = watcher.behind.get(router);
      if (behind === undefined || whole) watcher.behind.set(router, (behind = { whole, gone, workers: new Map() }));
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
        this.#pass({ router, workers: [], whole: true, gone: true });
      }
      this.#look();
    });
  }
}
