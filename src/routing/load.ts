import type { WorkerId } from "../core/ids.ts";

/** Half of what was placed on a worker this long ago no longer counts as being in its cache. */
const PLACED_HALF_LIFE_MS = 10 * 60_000;

/** Something that runs on a worker and must end when the worker is lost. */
export interface Leg {
  lost(reason: string): void;
}

/** What this router has on one worker. */
export class WorkerLoad {
  inFlight = 0;
  queuedTokens = 0;
  streams = 0;
  /** Requests that it was ever given. */
  uses = 0;
  readonly legs = new Set<Leg>();
  #placed = 0;
  #placedAtMs = 0;

  /** Uncached tokens placed there, fading. */
  placed(nowMs: number): number {
    return this.#placed * 0.5 ** ((nowMs - this.#placedAtMs) / PLACED_HALF_LIFE_MS);
  }

  /** Its cache is gone. */
  emptied(): void {
    this.#placed = 0;
  }

  place(tokens: number, nowMs: number): void {
    this.#placed = this.placed(nowMs) + tokens;
    this.#placedAtMs = nowMs;
  }
}

/** A place on a worker, taken at the choice. Give it back with `release()`, once or more: only the first counts. */
export class Booking {
  readonly #load: WorkerLoad;
  readonly #tokens: number;
  #state: "queued" | "streaming" | "released" = "queued";

  constructor(load: WorkerLoad, uncachedTokens: number, nowMs: number) {
    this.#load = load;
    this.#tokens = uncachedTokens;
    load.inFlight++;
    load.uses++;
    load.queuedTokens += uncachedTokens;
    load.place(uncachedTokens, nowMs);
  }

  /** Its prompt is computed: from queue to decode. */
  firstToken(): void {
    if (this.#state !== "queued") return;
    this.#state = "streaming";
    this.#load.queuedTokens -= this.#tokens;
    this.#load.streams++;
  }

  release(): void {
    if (this.#state === "released") return;
    if (this.#state === "queued") this.#load.queuedTokens -= this.#tokens;
    else this.#load.streams--;
    this.#state = "released";
    this.#load.inFlight--;
  }
}

/** The loads of all workers, by id. */
export class LoadBook {
  readonly #loads = new Map<WorkerId, WorkerLoad>();

  of(worker: WorkerId): WorkerLoad {
    let load = this.#loads.get(worker);
    if (load === undefined) this.#loads.set(worker, (load = new WorkerLoad()));
    return load;
  }

  /** A lost worker: what runs there ends, its cache is gone. Bookings stay until their owners give them back. */
  lost(worker: WorkerId, reason: string): void {
    const load = this.#loads.get(worker);
    if (load === undefined) return;
    for (const leg of [...load.legs]) leg.lost(reason);
    load.emptied();
  }

  /** Drop what is empty and not among `keep`. @returns the workers dropped */
  sweep(keep: ReadonlySet<WorkerId>): WorkerId[] {
    const gone = [...this.#loads].filter(([id, load]) => load.inFlight === 0 && !keep.has(id)).map(([id]) => id);
    for (const id of gone) this.#loads.delete(id);
    return gone;
  }
}
