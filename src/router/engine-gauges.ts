import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Engine, EngineLoad } from "../engines/engine.ts";
import { fetchText } from "../http/fetch-text.ts";

/** How old a figure may be. */
const FRESH_MS = 5_000;
const TIMEOUT_MS = 2_000;
/** Engines that are asked at all: a page shows no more. */
const MOST = 64;

/** What engines say of their own load, asked only while somebody looks; figures come with the next look. */
export class EngineGauges {
  readonly #engines: readonly Engine[];
  readonly #clock: Clock;
  readonly #keyOf: (worker: WorkerId) => string | undefined;
  readonly #loads = new Map<WorkerId, EngineLoad>();
  #askedMs = Number.NEGATIVE_INFINITY;
  #asking = false;

  constructor(engines: readonly Engine[], clock: Clock, keyOf: (worker: WorkerId) => string | undefined) {
    this.#engines = engines;
    this.#clock = clock;
    this.#keyOf = keyOf;
  }

  /** The last figures of these; asks anew when they are old. */
  of(workers: readonly WorkerInfo[]): ReadonlyMap<WorkerId, EngineLoad> {
    if (!this.#asking && this.#clock.now() - this.#askedMs >= FRESH_MS) {
      this.#asking = true;
      void this.#ask(workers.slice(0, MOST)).finally(() => {
        this.#asking = false;
        this.#askedMs = this.#clock.now();
      });
    }
    return this.#loads;
  }

  async #ask(workers: readonly WorkerInfo[]): Promise<void> {
    const there = new Set(workers.map(({ id }) => id));
    for (const id of this.#loads.keys()) if (!there.has(id)) this.#loads.delete(id);
    await Promise.all(workers.map((worker) => this.#askOne(worker)));
  }

  async #askOne(worker: WorkerInfo): Promise<void> {
    const metrics = this.#engines.find(({ kind }) => kind === worker.kind)?.probe.metrics;
    if (metrics === undefined || worker.state !== "ready") return void this.#loads.delete(worker.id);
    const key = this.#keyOf(worker.id);
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const { status, body } = await fetchText(worker.url + metrics.path, { timeoutMs: TIMEOUT_MS, headers });
    if (status === 200) this.#loads.set(worker.id, metrics.parse(body));
    else this.#loads.delete(worker.id);
  }
}
