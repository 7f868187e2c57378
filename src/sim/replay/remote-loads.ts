/** What other routers have in flight on one engine, as far as it is known. */
export interface RemoteLoad {
  inFlight: number;
  queuedTokens: number;
  streams: number;
}

interface Change {
  readonly at: number;
  readonly engine: number;
  readonly inFlight: number;
  readonly queuedTokens: number;
  readonly streams: number;
}

/** A router's view of the other routers' bookings, late by a fixed time. */
export class RemoteLoads {
  readonly #delayMs: number;
  readonly #loads: RemoteLoad[];
  #peers: readonly RemoteLoads[] = [];
  #changes: Change[] = [];
  #next = 0;

  constructor(engines: number, delayMs: number) {
    this.#delayMs = delayMs;
    this.#loads = Array.from({ length: engines }, () => ({ inFlight: 0, queuedTokens: 0, streams: 0 }));
  }

  /** Views that hear of this router's bookings. */
  tell(peers: readonly RemoteLoads[]): void {
    this.#peers = peers.filter((peer) => peer !== this);
  }

  of(now: number, engine: number): RemoteLoad {
    while (this.#next < this.#changes.length && this.#changes[this.#next]!.at <= now) {
      const change = this.#changes[this.#next++]!;
      const load = this.#loads[change.engine]!;
      load.inFlight += change.inFlight;
      load.queuedTokens += change.queuedTokens;
      load.streams += change.streams;
    }
    if (this.#next > 1024 && this.#next * 2 > this.#changes.length) {
      this.#changes = this.#changes.slice(this.#next);
      this.#next = 0;
    }
    return this.#loads[engine]!;
  }

  booked(now: number, engine: number, tokens: number): void {
    this.#post(now, engine, 1, tokens, 0);
  }

  firstToken(now: number, engine: number, tokens: number): void {
    this.#post(now, engine, 0, -tokens, 1);
  }

  /** @param streamed after its first token */
  ended(now: number, engine: number, tokens: number, streamed: boolean): void {
    this.#post(now, engine, -1, streamed ? 0 : -tokens, streamed ? -1 : 0);
  }

  #post(now: number, engine: number, inFlight: number, queuedTokens: number, streams: number): void {
    const change = { at: now + this.#delayMs, engine, inFlight, queuedTokens, streams };
    for (const peer of this.#peers) peer.#changes.push(change);
  }
}
