import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import { LegList } from "./leg-list.ts";

export type { Leg } from "./leg-list.ts";

/** Half of what was placed on a worker this long ago no longer counts as being in its cache. */
const PLACED_HALF_LIFE_MS = 10 * 60_000;

/** What one router has on a worker, as far as it matters to a choice: its own, or what another router told. */
export interface LoadView {
  readonly inFlight: number;
  /** Prompt tokens booked for requests that gave no first token yet. */
  readonly queuedTokens: number;
  /** Requests past their first token. */
  readonly streams: number;
  /** Tokens of the oldest of those that wait, and when it was booked (milliseconds of this process's clock). */
  readonly headTokens: number;
  readonly headAtMs: number;
  /** When a prompt was last done there. */
  readonly doneAtMs: number;
}

/**
 * Prompt tokens that a worker still has to compute before it comes to a new one. Engines take prompts in the order in which they come,
 * so the oldest one is being worked on since it was sent, or since the one before it was done; what was done of it by now does not
 * count. Without this a worker in midst of a long prompt looks as if it had not begun.
 *
 * @param views this router's, and what other routers told of theirs
 */
export function tokensAhead(views: readonly LoadView[], perTokenMs: number, nowMs: number): number {
  let queued = 0;
  let doneAtMs = Number.NEGATIVE_INFINITY;
  let head: LoadView | undefined;
  for (const view of views) {
    doneAtMs = Math.max(doneAtMs, view.doneAtMs);
    if (view.queuedTokens === 0) continue;
    queued += view.queuedTokens;
    if (head === undefined || view.headAtMs < head.headAtMs) head = view;
  }
  if (head === undefined) return 0;
  const workedMs = Math.max(0, nowMs - Math.max(head.headAtMs, doneAtMs));
  return queued - Math.min(head.headTokens, workedMs / perTokenMs);
}

/** What this router has on one worker. */
export class WorkerLoad implements LoadView {
  inFlight = 0;
  queuedTokens = 0;
  streams = 0;
  /** Requests that it was ever given. */
  uses = 0;
  doneAtMs = Number.NEGATIVE_INFINITY;
  readonly legs = new LegList();
  /** Those that wait, in the order of booking, linked to each other (no `Set`: see `LegList`). */
  #first: Booking | undefined;
  #last: Booking | undefined;
  readonly #changed: () => void;
  #placed = 0;
  #placedAtMs = 0;

  /** @param changed after each change of what is in flight */
  constructor(changed: () => void = () => {}) {
    this.#changed = changed;
  }

  get headTokens(): number {
    return this.#first?.tokens ?? 0;
  }

  get headAtMs(): number {
    return this.#first?.atMs ?? Number.POSITIVE_INFINITY;
  }

  join(booking: Booking): void {
    this.inFlight++;
    this.uses++;
    this.queuedTokens += booking.tokens;
    this.place(booking.tokens, booking.atMs);
    booking.before = this.#last;
    if (this.#last === undefined) this.#first = booking;
    else this.#last.after = booking;
    this.#last = booking;
    this.#changed();
  }

  /** Its prompt is computed: from queue to decode. */
  decodes(booking: Booking, nowMs: number): void {
    this.#leaveQueue(booking, nowMs);
    this.streams++;
    this.#changed();
  }

  /** It is over. */
  leave(booking: Booking, nowMs: number): void {
    if (booking.before !== undefined || this.#first === booking) this.#leaveQueue(booking, nowMs);
    else this.streams--;
    this.inFlight--;
    this.#changed();
  }

  #leaveQueue(booking: Booking, nowMs: number): void {
    this.queuedTokens -= booking.tokens;
    const { before, after } = booking;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    booking.before = booking.after = undefined;
    this.doneAtMs = nowMs;
  }

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
  /** Prompt tokens that the worker computes for it. */
  readonly tokens: number;
  readonly atMs: number;
  /** Its neighbours among those that wait; written by the worker's load alone. */
  before: Booking | undefined;
  after: Booking | undefined;
  readonly #load: WorkerLoad;
  readonly #clock: Pick<Clock, "now">;
  #state: "queued" | "streaming" | "released" = "queued";

  constructor(load: WorkerLoad, uncachedTokens: number, clock: Pick<Clock, "now">) {
    this.#load = load;
    this.#clock = clock;
    this.tokens = uncachedTokens;
    this.atMs = clock.now();
    load.join(this);
  }

  /** Its prompt is computed: from queue to decode. */
  firstToken(): void {
    if (this.#state !== "queued") return;
    this.#state = "streaming";
    this.#load.decodes(this, this.#clock.now());
  }

  release(): void {
    if (this.#state === "released") return;
    this.#state = "released";
    this.#load.leave(this, this.#clock.now());
  }
}

/** The loads of all workers, by id. */
export class LoadBook {
  /** Told after each change of what is on a worker. */
  onChange: ((worker: WorkerId) => void) | undefined;
  readonly #loads = new Map<WorkerId, WorkerLoad>();

  of(worker: WorkerId): WorkerLoad {
    let load = this.#loads.get(worker);
    if (load === undefined) this.#loads.set(worker, (load = new WorkerLoad(() => this.onChange?.(worker))));
    return load;
  }

  /** Workers that have something in flight. */
  *busy(): Generator<WorkerId> {
    for (const [id, { inFlight }] of this.#loads) if (inFlight > 0) yield id;
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
