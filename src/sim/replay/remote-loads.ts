import { Booking, type LoadView, WorkerLoad } from "../../routing/load.ts";

interface Change {
  /** When it is heard, and when it happened. */
  readonly heardAt: number;
  readonly at: number;
  readonly what: "booked" | "firstToken" | "release";
  readonly engine: number;
  readonly tokens: number;
  /** Of the booking, as its router names it. */
  readonly of: object;
}

/** A router's view of the other routers' bookings, late by a fixed time. */
export class RemoteLoads {
  readonly #delayMs: number;
  readonly #loads: readonly WorkerLoad[];
  readonly #bookings = new Map<object, Booking>();
  /** Of the change that is being taken. */
  readonly #clock = { at: 0, now: () => this.#clock.at };
  #peers: readonly RemoteLoads[] = [];
  #changes: Change[] = [];
  #next = 0;

  constructor(engines: number, delayMs: number) {
    this.#delayMs = delayMs;
    this.#loads = Array.from({ length: engines }, () => new WorkerLoad());
  }

  /** Views that hear of this router's bookings. */
  tell(peers: readonly RemoteLoads[]): void {
    this.#peers = peers.filter((peer) => peer !== this);
  }

  of(now: number, engine: number): LoadView {
    while (this.#next < this.#changes.length && this.#changes[this.#next]!.heardAt <= now) {
      this.#take(this.#changes[this.#next++]!);
    }
    if (this.#next > 1024 && this.#next * 2 > this.#changes.length) {
      this.#changes = this.#changes.slice(this.#next);
      this.#next = 0;
    }
    return this.#loads[engine]!;
  }

  /** @param of names the booking from here on */
  booked(now: number, engine: number, tokens: number, of: object): void {
    this.#post({ at: now, what: "booked", engine, tokens, of });
  }

  firstToken(now: number, engine: number, of: object): void {
    this.#post({ at: now, what: "firstToken", engine, tokens: 0, of });
  }

  ended(now: number, engine: number, of: object): void {
    this.#post({ at: now, what: "release", engine, tokens: 0, of });
  }

  #take({ what, engine, tokens, at, of }: Change): void {
    this.#clock.at = at;
    if (what === "booked") {
      this.#bookings.set(of, new Booking(this.#loads[engine]!, tokens, this.#clock));
      return;
    }
    this.#bookings.get(of)?.[what]();
    if (what === "release") this.#bookings.delete(of);
  }

  #post(change: Omit<Change, "heardAt">): void {
    const heard = { ...change, heardAt: change.at + this.#delayMs };
    for (const peer of this.#peers) peer.#changes.push(heard);
  }
}
