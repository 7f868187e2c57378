import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";

/** `[router.admission]`: a limit that is not written does not bind. */
export interface AdmissionLimits {
  readonly maxQueue?: number;
  readonly maxConcurrentPerReplica?: number;
  readonly queueTimeoutMs?: number;
}

/** A place among the requests that run; give it back exactly once. */
export interface Admission {
  release(): void;
}

interface Waiting {
  admit(): void;
}

interface Lane {
  running: number;
  /** Ready workers now. */
  readonly replicas: () => number;
  readonly queue: Waiting[];
}

/**
 * Lets requests of a model in while its ready workers have places (`max_concurrent_per_replica` each), first come first
 * served; the rest wait in a queue of at most `max_queue` for at most `queue_timeout_ms`.
 */
export class Admissions {
  readonly #limits: AdmissionLimits;
  readonly #clock: Clock;
  readonly #lanes = new Map<string, Lane>();

  constructor(limits: AdmissionLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  running(model: string): number {
    return this.#lanes.get(model)?.running ?? 0;
  }

  queued(model: string): number {
    return this.#lanes.get(model)?.queue.length ?? 0;
  }

  /** Workers came or went: let in whom there is a place for now. */
  wake(): void {
    for (const lane of this.#lanes.values()) this.#next(lane);
  }

  /**
   * Get a place: at once where there is one, else a promise.
   *
   * @param replicas ready workers of the model, asked anew whenever a place may have become free
   * @throws CgnError OVERLOADED for a full queue or an overdue wait; CALLER_LEFT
   */
  admit(model: string, replicas: () => number, exchange: Exchange): Admission | Promise<Admission> {
    let lane = this.#lanes.get(model);
    if (lane === undefined) this.#lanes.set(model, (lane = { running: 0, replicas, queue: [] }));
    const perReplica = this.#limits.maxConcurrentPerReplica;
    if (perReplica === undefined || (lane.queue.length === 0 && lane.running < perReplica * replicas())) {
      return this.#enter(lane);
    }
    const { maxQueue } = this.#limits;
    if (maxQueue !== undefined && lane.queue.length >= maxQueue) {
      throw overloaded(model, `${lane.queue.length} requests wait already (router.admission.max_queue)`, "queue full");
    }
    return this.#wait(model, lane, exchange);
  }

  #enter(lane: Lane): Admission {
    lane.running++;
    let released = false;
    return {
      release: () => {
        if (released) return;
        released = true;
        lane.running--;
        this.#next(lane);
      },
    };
  }

  #next(lane: Lane): void {
    const perReplica = this.#limits.maxConcurrentPerReplica ?? Number.POSITIVE_INFINITY;
    while (lane.queue.length > 0 && lane.running < perReplica * Math.max(1, lane.replicas()))
      lane.queue.shift()?.admit();
  }

  #wait(model: string, lane: Lane, exchange: Exchange): Promise<Admission> {
    return new Promise((resolve, reject) => {
      const leave = (error: CgnError): void => {
        cancel?.();
        exchange.onLeft = undefined;
        const at = lane.queue.indexOf(waiting);
        if (at >= 0) lane.queue.splice(at, 1);
        reject(error);
      };
      const waiting: Waiting = {
        admit: () => {
          cancel?.();
          exchange.onLeft = undefined;
          resolve(this.#enter(lane));
        },
      };
      lane.queue.push(waiting);
      exchange.onLeft = () => leave(new CgnError("CALLER_LEFT", "Client left the queue", {}) as CgnError);
      const ms = this.#limits.queueTimeoutMs;
      const late = `it waited ${ms} ms (router.admission.queue_timeout_ms)`;
      const cancel =
        ms === undefined ? undefined : this.#clock.after(ms, () => leave(overloaded(model, late, "queue timeout")));
    });
  }
}

function overloaded(model: string, is: string, reason: string): CgnError {
  const message = `Cannot admit a request for "${model}": ${is}. Try again later, or add engines`;
  return new CgnError("OVERLOADED", message, { retryAfterS: 1, reason } as { retryAfterS: number }) as CgnError;
}
