import type { WorkerId } from "./ids.ts";

/** Requests of one model that wait for it to be loaded, as one router sees them. */
export interface ModelDemand {
  readonly model: string;
  readonly waiting: number;
  /** How long the first of them has waited, in milliseconds. */
  readonly oldestMs: number;
}

/** What one router has on a worker that is loaded on demand. */
export interface WorkerUse {
  readonly worker: WorkerId;
  readonly inFlight: number;
  /** Requests that it was given since the router started: tells use between two reports. */
  readonly uses: number;
  /** It may still be chosen for new requests. False with `inFlight` 0 proves that nothing is there and nothing can come. */
  readonly chosen: boolean;
}

export interface Demand {
  readonly models: readonly ModelDemand[];
  readonly workers: readonly WorkerUse[];
}

/** Who loads models when somebody waits for them: the agent of this process, or agents elsewhere. */
export interface ModelLoader {
  /** The whole of what a router wants and has; replaces what it said before. */
  demand(router: string, demand: Demand): void;
  /**
   * Load an engine by its id, or every engine of a model. The load goes on after the answer.
   * @returns the engines that are meant; none: no such name here that is loaded on demand
   */
  load(name: string): Promise<readonly WorkerId[]>;
  /** The same for unloading: requests on it end first. */
  unload(name: string): Promise<readonly WorkerId[]>;
}
