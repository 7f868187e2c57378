import type { WorkerId } from "../core/ids.ts";
import type { Demand, WorkerUse } from "../core/model-loader.ts";
import type { Wait } from "./swap-plan.ts";

/** A router elsewhere that was silent for so long is gone. */
const FORGET_MS = 3_000;

interface Report {
  readonly demand: Demand;
  readonly atMs: number;
}

/** What all routers together want and have, as they told it last. */
export class DemandBook {
  readonly #reports = new Map<string, Report>();
  /** By router and worker: uses that were told before. */
  readonly #uses = new Map<string, number>();
  /** Reports of this process's own router hold until the next one. */
  readonly #isLocal: boolean;

  constructor(isLocal: boolean) {
    this.#isLocal = isLocal;
  }

  /** @returns the workers that were used since this router's last report */
  take(router: string, demand: Demand, nowMs: number): readonly WorkerId[] {
    this.#reports.set(router, { demand, atMs: nowMs });
    return demand.workers
      .filter(({ worker, uses, inFlight }) => {
        const key = `${router} ${worker}`;
        const before = this.#uses.get(key);
        this.#uses.set(key, uses);
        return inFlight > 0 || (before !== undefined && uses !== before);
      })
      .map(({ worker }) => engineOf(worker));
  }

  /** Drop routers that are silent. @returns whether any was dropped */
  forget(nowMs: number): boolean {
    if (this.#isLocal) return false;
    let dropped = false;
    for (const [router, { atMs }] of this.#reports) {
      if (nowMs - atMs < FORGET_MS) continue;
      this.#reports.delete(router);
      for (const key of this.#uses.keys()) if (key.startsWith(`${router} `)) this.#uses.delete(key);
      dropped = true;
    }
    return dropped;
  }

  get size(): number {
    return this.#reports.size;
  }

  /** Who waits for the models of these names. */
  waiting(models: ReadonlySet<string>): Map<string, Wait> {
    const waiting = new Map<string, Wait>();
    for (const { demand, atMs } of this.#reports.values()) {
      for (const { model, waiting: count, oldestMs } of demand.models) {
        if (count === 0 || !models.has(model)) continue;
        const sinceMs = atMs - oldestMs;
        const known = waiting.get(model);
        waiting.set(model, {
          count: count + (known?.count ?? 0),
          oldestMs: Math.min(sinceMs, known?.oldestMs ?? sinceMs),
        });
      }
    }
    return waiting;
  }

  /** Has some router a request on the worker? */
  isBusy(worker: WorkerId): boolean {
    return this.#of(worker).some(({ inFlight }) => inFlight > 0);
  }

  /** Every router that knows the worker has nothing there and will send nothing there. */
  isFree(worker: WorkerId): boolean {
    return this.#of(worker).every(({ inFlight, chosen }) => inFlight === 0 && !chosen);
  }

  #of(worker: WorkerId): WorkerUse[] {
    return [...this.#reports.values()].flatMap(({ demand }) =>
      demand.workers.filter((use) => engineOf(use.worker) === worker),
    );
  }
}

/** The engine of a data-parallel rank's worker (`ENGINE#dp1`): the ranks are loaded and unloaded together. */
const engineOf = (worker: WorkerId): WorkerId => worker.replace(/#dp\d+$/, "") as WorkerId;
