import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LoadView } from "./load.ts";

const NONE: readonly LoadView[] = [];

/** What other routers have in flight, as they told it. */
export class OtherBooks {
  readonly #routers = new Map<string, Map<WorkerId, LoadView>>();
  /** By worker; made when it is asked for. */
  readonly #views = new Map<WorkerId, readonly LoadView[]>();

  /** How many others there are, idle ones too. */
  get routers(): number {
    return this.#routers.size;
  }

  /** @param news undefined: nothing is known any more */
  hear(news: readonly RouterBookings[] | undefined, nowMs: number): void {
    this.#views.clear();
    if (news === undefined) this.#routers.clear();
    for (const { router, workers, whole, gone } of news ?? []) {
      if (gone === true) {
        this.#routers.delete(router);
        continue;
      }
      const known = whole ? new Map<WorkerId, LoadView>() : (this.#routers.get(router) ?? new Map());
      for (const each of workers) {
        if (each.inFlight === 0 && each.doneAgeMs === undefined) known.delete(each.worker);
        else known.set(each.worker, viewOf(each, nowMs));
      }
      this.#routers.set(router, known);
    }
  }

  of(worker: WorkerId): readonly LoadView[] {
    if (this.#routers.size === 0) return NONE;
    let views = this.#views.get(worker);
    if (views === undefined) {
      views = [...this.#routers.values()].flatMap((known) => known.get(worker) ?? []);
      this.#views.set(worker, views);
    }
    return views;
  }
}

/** Ages become times of this process's clock. */
function viewOf(b: WorkerBookings, nowMs: number): LoadView {
  return {
    inFlight: b.inFlight,
    queuedTokens: b.queuedTokens,
    streams: b.streams,
    headTokens: b.headTokens,
    headAtMs: nowMs - b.headAgeMs,
    doneAtMs: b.doneAgeMs === undefined ? Number.NEGATIVE_INFINITY : nowMs - b.doneAgeMs,
  };
}

/** What this router tells of a worker. */
export function bookingsOf(worker: WorkerId, load: LoadView, nowMs: number): WorkerBookings {
  return {
    worker,
    inFlight: load.inFlight,
    queuedTokens: load.queuedTokens,
    streams: load.streams,
    headTokens: load.headTokens,
    headAgeMs: load.queuedTokens === 0 ? 0 : Math.max(0, nowMs - load.headAtMs),
    doneAgeMs: Number.isFinite(load.doneAtMs) ? Math.max(0, nowMs - load.doneAtMs) : undefined,
  };
}
