import type { Clock } from "../core/clock.ts";
import type { ModelDemand, ModelLoader, WorkerUse } from "../core/model-loader.ts";
import type { LoadBook } from "../routing/load.ts";
import type { Fleet } from "./fleet.ts";

export interface DemandReportOptions {
  readonly fleet: Fleet;
  readonly loads: LoadBook;
  readonly demand: () => readonly ModelDemand[];
  readonly loader: ModelLoader;
  /** Name of this router. */
  readonly router: string;
  readonly clock: Clock;
}

/** How often the workers' use is looked at: a swap waits for a busy engine at most so much longer than it must. */
const LOOK_MS = 50;
/** The same is said again after so long: an agent forgets a router that is silent. */
const REPEAT_MS = 1_000;

/**
 * Tells the agents what this router's clients wait for, and what it has on workers that are loaded on demand. Looks at nothing while
 * there are none of those.
 */
export class DemandReport {
  readonly #o: DemandReportOptions;
  #said = "";
  #saidMs = 0;
  #soon = false;
  #cancel: (() => void) | undefined;
  #closed = false;

  constructor(options: DemandReportOptions) {
    this.#o = options;
  }

  /** Somebody came to wait or left, or workers changed. Told after what runs now: listeners are told of a change one at a time. */
  changed(): void {
    if (this.#soon || this.#closed) return;
    this.#soon = true;
    queueMicrotask(() => {
      this.#soon = false;
      this.#look();
    });
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  #look(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#closed) return;
    const { fleet, loads, clock, loader, router } = this.#o;
    const workers: WorkerUse[] = fleet
      .workers()
      .filter((worker) => worker.onDemand === true)
      .map((worker) => {
        const { inFlight, uses } = loads.of(worker.id);
        return { worker: worker.id, inFlight, uses, chosen: fleet.whyNot(worker) === undefined };
      });
    const models = this.#o.demand();
    if (workers.length === 0 && models.length === 0 && this.#said === "") return;
    // Ages grow by themselves: who waits is what is compared.
    const says = JSON.stringify([workers, models.map(({ model, waiting }) => [model, waiting])]);
    if (says !== this.#said || clock.now() - this.#saidMs >= REPEAT_MS) {
      this.#said = workers.length === 0 && models.length === 0 ? "" : says;
      this.#saidMs = clock.now();
      loader.demand(router, { models, workers });
    }
    if (workers.length > 0 || models.length > 0) this.#cancel = clock.after(LOOK_MS, () => this.#look());
  }
}
