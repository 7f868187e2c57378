import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { DrainRate } from "../routing/drain-rate.ts";
import { FairQueue, type QueueEntry } from "../routing/fair-queue.ts";
import type { Exchange } from "./accept.ts";
import { ownDeadline } from "./wait-room.ts";

/** `[router.admission]`: a limit that is not written does not bind. */
export interface AdmissionLimits {
  readonly maxQueue?: number;
  readonly maxConcurrentPerReplica?: number;
  readonly queueTimeoutMs?: number;
  /** Who is predicted to wait longer than this for a place is refused at once, and who does wait so long then. */
  readonly ttftSloMs?: number;
}

/** A place among the requests that run; give it back exactly once. */
export interface Admission {
  release(): void;
}

interface Waiting {
  admit(): void;
  /** A tenant that has fewer waiting takes its place in the queue. */
  displace(): void;
}

interface Lane {
  running: number;
  /** Ready workers now. */
  replicas: () => number;
  readonly queue: FairQueue<Waiting>;
  readonly drain: DrainRate;
}

/** The part of an exchange that is asked here. */
type Asking = Pick<Exchange, "req" | "startedMs" | "onLeft" | "subject">;

const PRIORITY = "x-cgn-priority";
const DEADLINE = "x-cgn-deadline-ms";
/** Beyond these a priority says no more: ten steps are minutes of waiting. */
const MOST_PRIORITY = 10;

/**
 * Lets requests of a model in while its ready workers have places (`max_concurrent_per_replica` each); the rest wait in a queue of at
 * most `max_queue` for at most `queue_timeout_ms`. Who goes next is `FairQueue`'s: by priority, then tenants in turn, then by deadline.
 */
export class Admissions {
  #limits: AdmissionLimits;
  readonly #clock: Clock;
  readonly #lanes = new Map<string, Lane>();

  constructor(limits: AdmissionLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Other limits from now on; who waits keeps the time that was set for it. */
  limit(limits: AdmissionLimits): void {
    this.#limits = limits;
    this.wake();
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
   * @throws CgnError OVERLOADED for a full queue, a wait that is predicted to be too long, and one that was; CALLER_LEFT;
   * REQUEST_INVALID for a priority that is none
   */
  admit(model: string, replicas: () => number, exchange: Asking): Admission | Promise<Admission> {
    const lane = this.#lane(model, replicas);
    const priority = ownPriority(exchange);
    const subject = exchange.subject.keyId ?? exchange.subject.name;
    const perReplica = this.#limits.maxConcurrentPerReplica;
    if (perReplica === undefined || (lane.queue.length === 0 && lane.running < perReplica * replicas())) {
      lane.queue.started(subject);
      return this.#enter(lane, subject);
    }
    const limit = this.#waitLimit(exchange);
    this.#requireHope(model, lane, priority, limit);
    this.#requirePlace(model, lane, subject);
    return this.#wait(model, lane, { subject, priority, exchange, limit });
  }

  #lane(model: string, replicas: () => number): Lane {
    let lane = this.#lanes.get(model);
    if (lane === undefined) {
      this.#lanes.set(model, (lane = { running: 0, replicas, queue: new FairQueue(), drain: new DrainRate() }));
    }
    lane.replicas = replicas;
    return lane;
  }

  /** The shortest of what binds, counted from the request's arrival. */
  #waitLimit(exchange: Asking): WaitLimit {
    const { queueTimeoutMs, ttftSloMs } = this.#limits;
    const none = Number.POSITIVE_INFINITY;
    const limits: readonly WaitLimit[] = [
      { ms: queueTimeoutMs ?? none, key: "router.admission.queue_timeout_ms", reason: "queue timeout" },
      { ms: ttftSloMs ?? none, key: "router.admission.ttft_slo", reason: "predicted TTFT" },
      { ms: ownDeadline(exchange), key: `its own ${DEADLINE}`, reason: "deadline" },
    ];
    return limits.reduce((least, each) => (each.ms < least.ms ? each : least));
  }

  /** @throws CgnError OVERLOADED when it would wait in vain */
  #requireHope(model: string, lane: Lane, priority: number, limit: WaitLimit): void {
    const now = this.#clock.now();
    const { queue } = lane;
    const waitMs = lane.drain.waitMs(queue.ahead(priority, now) + 1, now);
    // A time limit on the queue is for those who hope; the other two say what a client can use.
    if (waitMs === undefined || waitMs <= limit.ms || limit.reason === "queue timeout") return;
    const is = `it would wait about ${Math.round(waitMs)} ms for a place, and ${limit.ms} ms are the limit (${limit.key})`;
    throw overloaded(model, is, limit.reason, waitMs - limit.ms);
  }

  /** A full queue has a place for a tenant that has fewer waiting than another. @throws CgnError OVERLOADED */
  #requirePlace(model: string, { queue, drain }: Lane, subject: string): void {
    const { maxQueue } = this.#limits;
    if (maxQueue === undefined || queue.length < maxQueue) return;
    const displaced = queue.displaced(subject);
    if (displaced === undefined) throw queueFull(model, queue.length, drain.waitMs(queue.length, this.#clock.now()));
    displaced.what.displace();
  }

  /** Its place is counted as its subject's already. */
  #enter(lane: Lane, subject: string): Admission {
    lane.running++;
    let released = false;
    return {
      release: () => {
        if (released) return;
        released = true;
        lane.running--;
        lane.queue.ended(subject);
        if (lane.queue.length > 0) lane.drain.ended(this.#clock.now());
        this.#next(lane);
      },
    };
  }

  #next(lane: Lane): void {
    const perReplica = this.#limits.maxConcurrentPerReplica ?? Number.POSITIVE_INFINITY;
    while (lane.queue.length > 0 && lane.running < perReplica * Math.max(1, lane.replicas()))
      lane.queue.take()?.what.admit();
  }

  #wait(model: string, lane: Lane, { subject, priority, exchange, limit }: Wish): Promise<Admission> {
    return new Promise((resolve, reject) => {
      const now = this.#clock.now();
      const leave = (error: CgnError): void => {
        cancel();
        exchange.onLeft = undefined;
        lane.queue.remove(entry);
        reject(error);
      };
      const entry: QueueEntry<Waiting> = {
        subject,
        priority,
        sinceMs: now,
        deadlineMs: exchange.startedMs + ownDeadline(exchange),
        what: {
          admit: () => {
            cancel();
            exchange.onLeft = undefined;
            resolve(this.#enter(lane, subject));
          },
          displace: () => {
            const { queue, drain } = lane;
            leave(queueFull(model, queue.length, drain.waitMs(queue.length, this.#clock.now())));
          },
        },
      };
      if (lane.queue.length === 0) lane.drain.began(now);
      lane.queue.push(entry);
      exchange.onLeft = () => leave(new CgnError("CALLER_LEFT", "Client left the queue", {}) as CgnError);
      const late = (): void => {
        const is = `it waited ${limit.ms} ms (${limit.key})`;
        const { queue, drain } = lane;
        leave(overloaded(model, is, limit.reason, drain.waitMs(queue.length, this.#clock.now())));
      };
      const leftMs = Math.max(0, exchange.startedMs + limit.ms - now);
      const cancel = Number.isFinite(leftMs) ? this.#clock.after(leftMs, late) : () => {};
    });
  }
}

interface WaitLimit {
  readonly ms: number;
  /** Where it is written. */
  readonly key: string;
  readonly reason: string;
}

interface Wish {
  readonly subject: string;
  readonly priority: number;
  readonly exchange: Asking;
  readonly limit: WaitLimit;
}

/**
 * `x-cgn-priority`, at most what the subject may ask; 0 without one.
 * @throws CgnError REQUEST_INVALID when it is no integer
 */
export function ownPriority({ req, subject }: Pick<Exchange, "req" | "subject">): number {
  const text = req.headers[PRIORITY];
  if (text === undefined) return 0;
  if (typeof text !== "string" || !/^[+-]?\d{1,9}$/.test(text)) {
    const message = `Cannot take header ${PRIORITY} "${String(text).slice(0, 40)}": it is no integer. Write for example 1`;
    throw new CgnError("REQUEST_INVALID", message, { param: PRIORITY });
  }
  const most = Math.min(MOST_PRIORITY, subject.priority ?? MOST_PRIORITY);
  return Math.min(most, Math.max(-MOST_PRIORITY, Number(text)));
}

function queueFull(model: string, waiting: number, waitMs: number | undefined): CgnError {
  return overloaded(model, `${waiting} requests wait already (router.admission.max_queue)`, "queue full", waitMs);
}

/** @param waitMs how long the client should wait, as far as it is known */
function overloaded(model: string, is: string, reason: string, waitMs: number | undefined): CgnError {
  const message = `Cannot admit a request for "${model}": ${is}. Try again later, or add engines`;
  const retryAfterS = Math.max(1, Math.ceil((waitMs ?? 0) / 1000));
  return new CgnError("OVERLOADED", message, { retryAfterS, reason } as { retryAfterS: number }) as CgnError;
}
