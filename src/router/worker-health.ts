import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { admits, type Breaker, type BreakerEvent, CLOSED, stepBreaker } from "../routing/breaker.ts";
import type { LegEnd } from "./sinks.ts";

/** What a request tells of the worker that it was on. */
export type Sign = "good" | "bad" | "untold";

export interface HealthOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** 0 to 1. */
  readonly random: () => number;
  /** Ask the engine itself; never rejects. */
  look(worker: WorkerInfo): Promise<boolean>;
  /** Whether a worker may be chosen may have changed. */
  onChange(): void;
  /** It opened, half-opened or closed. */
  onMoved(worker: WorkerId, breaker: Breaker): void;
}

/**
 * A circuit breaker for each worker: fed by what requests meet there, and, while one is open, by looks at the engine's own health
 * endpoint, so that no request is risked before somebody answers.
 */
export class WorkerHealth {
  readonly #options: HealthOptions;
  readonly #breakers = new Map<WorkerId, Breaker>();
  readonly #looks = new Map<WorkerId, () => void>();

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  breaker(worker: WorkerId): Breaker {
    return this.#breakers.get(worker) ?? CLOSED;
  }

  /** Why requests go to other workers where there are any; undefined: they do not. */
  heldBack(worker: WorkerId): string | undefined {
    const breaker = this.#breakers.get(worker);
    if (breaker === undefined || admits(breaker) || breaker.at === "closed") return undefined;
    if (breaker.at === "half-open") return `circuit half-open: one request tries it (it failed: ${breaker.reason})`;
    const seconds = Math.max(0, (breaker.untilMs - this.#options.clock.now()) / 1_000).toFixed(1);
    return `circuit open: ${breaker.reason}; looked at again in ${seconds} s`;
  }

  begun(worker: WorkerInfo): void {
    if (this.#breakers.has(worker.id)) this.#step(worker, { type: "begun" });
  }

  /** A request's sign; `startedMs` is when it was sent. */
  told(worker: WorkerInfo, sign: Sign, startedMs: number, why: Failure = NO_FAILURE): void {
    if (sign === "bad") this.#step(worker, { type: "bad", startedMs, ...why });
    else if (this.#breakers.has(worker.id)) this.#step(worker, { type: sign, startedMs });
  }

  /** The process behind it is another one, or gone: what was known of it is void. */
  restarted(worker: WorkerInfo): void {
    if (this.#breakers.has(worker.id)) this.#step(worker, { type: "restarted" });
  }

  forget(worker: WorkerId): void {
    this.#breakers.delete(worker);
    this.#stopLooking(worker);
  }

  close(): void {
    for (const id of [...this.#looks.keys()]) this.#stopLooking(id);
  }

  #step(worker: WorkerInfo, event: BreakerEvent): void {
    const { clock, log, random, onChange, onMoved } = this.#options;
    const { id } = worker;
    const before = this.breaker(id);
    const next = stepBreaker(before, event, clock.now(), random());
    if (next === before) return;
    if (next === CLOSED) this.#breakers.delete(id);
    else this.#breakers.set(id, next);
    if (next.at === "open") this.#lookAt(worker, next.untilMs);
    else this.#stopLooking(id);
    if (next.at !== before.at) {
      if (next.at === "open" && before.at === "closed")
        log.warn("An engine fails; requests go to others where there are any", { worker: id, reason: next.reason });
      else if (next.at === "closed") log.info("An engine that failed answers again", { worker: id });
      onMoved(id, next);
    }
    if (admits(next) !== admits(before)) onChange();
  }

  #lookAt(worker: WorkerInfo, atMs: number): void {
    const { clock, look } = this.#options;
    this.#stopLooking(worker.id);
    const cancel = clock.after(Math.max(0, atMs - clock.now()), () => {
      void look(worker).then((ok) => {
        // It may have been forgotten, or closed by a request, meanwhile.
        if (this.#looks.get(worker.id) === cancel) this.#step(worker, { type: "looked", ok });
      });
    });
    this.#looks.set(worker.id, cancel);
  }

  #stopLooking(worker: WorkerId): void {
    this.#looks.get(worker)?.();
    this.#looks.delete(worker);
  }
}

/** Why a request's sign is bad. */
export interface Failure {
  readonly reason: string;
  /** Nobody is there: no second sign is needed. */
  readonly sure: boolean;
}

const NO_FAILURE: Failure = { reason: "", sure: false };

/**
 * What the end of a leg tells of its worker. The engine's own 4xx and 429 are its word to the client, 501 too, and what it says is
 * the sign that it lives.
 *
 * @param fresh its connection was a new one: one that was cut before any answer may only have been idle for too long
 */
export function signOf(end: LegEnd, fresh: boolean): { readonly sign: Sign; readonly why?: Failure } {
  if (end.type === "left") return { sign: "untold" };
  if (end.type === "complete") {
    if (end.status < 500 || end.status === 501) return { sign: "good" };
    return { sign: "bad", why: { reason: `it answered ${end.status}`, sure: false } };
  }
  if (end.type === "retry" && end.lacks !== undefined) return { sign: "good" };
  const { kind, phase, message } = end.failure;
  // `lost` is the directory's news; the other two are ours, or would be so at any worker.
  if (kind === "lost" || kind === "aborted" || kind === "unusable") return { sign: "untold" };
  if (kind === "reset" && phase === "head" && !fresh) return { sign: "untold" };
  return { sign: "bad", why: { reason: `${kind}: ${message}`, sure: kind === "refused" } };
}
