import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { ModelDemand } from "../core/model-loader.ts";
import type { Exchange } from "./accept.ts";
import { type Fleet, findGroup, type ModelGroup, noWorker } from "./fleet.ts";
import { openStream, sendComment } from "./opened-stream.ts";

/** How long requests wait for their model to be loaded. */
export interface WaitLimits {
  /** From the request's arrival. */
  readonly timeoutMs: number;
  /** After so long a streaming client gets its head and a comment, and another comment each time it passes again. */
  readonly keepAliveMs: number;
  /** `[router.admission].max_queue`, where written. */
  readonly maxWaiting?: number;
}

interface Waiting {
  readonly sinceMs: number;
  go(): void;
  refuse(error: CgnError): void;
}

/** Told to clients that waited in vain. */
const RETRY_AFTER_S = 10;

/**
 * Where requests wait for a model that its agent loads on demand, in the order in which they came. A model is asked for by being
 * waited for: `demand()` is what agents are told.
 */
export class WaitRoom {
  readonly #fleet: Fleet;
  readonly #limits: WaitLimits | undefined;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #queues = new Map<string, Waiting[]>();

  /**
   * @param limits undefined: nobody loads models for this router, so nobody waits
   * @param onChange after somebody came or went
   */
  constructor(fleet: Fleet, limits: WaitLimits | undefined, clock: Clock, onChange: () => void) {
    this.#fleet = fleet;
    this.#limits = limits;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  waiting(model: string): number {
    return this.#queues.get(model)?.length ?? 0;
  }

  /** Would a request for this group be kept rather than refused? */
  wouldWait(group: ModelGroup): boolean {
    return this.#limits !== undefined && this.#fleet.isLoadable(group);
  }

  demand(): ModelDemand[] {
    const now = this.#clock.now();
    return [...this.#queues].map(([model, queue]) => {
      const oldest = queue.reduce((least, { sinceMs }) => Math.min(least, sinceMs), now);
      return { model, waiting: queue.length, oldestMs: now - oldest };
    });
  }

  /**
   * The group of a model with a worker that takes requests: at once where there is one, else a promise while one is loaded.
   * @param streams the client may be sent comments
   * @throws CgnError MODEL_NOT_FOUND; NO_WORKER when none is ready and none is loaded, or not in time; OVERLOADED when too many wait;
   * CALLER_LEFT
   */
  ready(model: string, exchange: Exchange, streams: boolean): ModelGroup | Promise<ModelGroup> {
    const group = this.#fleet.group(model);
    if (this.#limits === undefined || group === undefined || group.ready.length > 0 || !this.wouldWait(group)) {
      return findGroup(this.#fleet, model);
    }
    return this.#wait(group, exchange, streams, this.#limits);
  }

  /** Workers came, went or changed: let those go on that can, and refuse those that wait for nothing. */
  wake(): void {
    for (const [model, queue] of [...this.#queues]) {
      const group = this.#fleet.group(model);
      const goes = group !== undefined && group.ready.length > 0;
      if (!goes && group !== undefined && this.#fleet.isLoadable(group)) continue;
      for (const waiting of [...queue]) {
        if (goes) waiting.go();
        else waiting.refuse(noWorker(this.#fleet, group ?? { model, workers: [], ready: [] }));
      }
    }
  }

  async #wait(group: ModelGroup, exchange: Exchange, streams: boolean, limits: WaitLimits): Promise<ModelGroup> {
    const { model } = group;
    const { maxWaiting } = limits;
    if (maxWaiting !== undefined && this.waiting(model) >= maxWaiting) throw tooMany(model, maxWaiting);
    const own = ownDeadline(exchange);
    const limitMs = Math.min(limits.timeoutMs, own);
    const isOwn = own < limits.timeoutMs;
    await new Promise<void>((resolve, reject) => {
      const now = this.#clock.now();
      const end = (settle: () => void): void => {
        exchange.waitedMs += this.#clock.now() - now;
        cancelLimit();
        cancelAlive();
        exchange.onLeft = undefined;
        this.#remove(model, waiting);
        settle();
      };
      const waiting: Waiting = {
        sinceMs: exchange.startedMs,
        go: () => end(resolve),
        refuse: (error) => end(() => reject(error)),
      };
      exchange.onLeft = () => waiting.refuse(left());
      const leftMs = exchange.startedMs + limitMs - now;
      const cancelLimit = this.#clock.after(Math.max(0, leftMs), () =>
        waiting.refuse(this.#tooLate(model, limitMs, isOwn)),
      );
      const cancelAlive = streams ? this.#keepAlive(model, exchange, limits.keepAliveMs) : () => {};
      this.#add(model, waiting);
      if (exchange.left) waiting.refuse(left());
    });
    // It may have been held again since.
    return this.ready(model, exchange, streams);
  }

  #keepAlive(model: string, exchange: Exchange, keepAliveMs: number): () => void {
    let cancel = (): void => {};
    const beat = (): void => {
      openStream(exchange);
      const seconds = Math.round((this.#clock.now() - exchange.startedMs) / 1_000);
      sendComment(exchange, `cgn waits for ${model} to be loaded, ${seconds} s`);
      cancel = this.#clock.after(keepAliveMs, beat);
    };
    cancel = this.#clock.after(keepAliveMs, beat);
    return () => cancel();
  }

  /** In the order of arrival: one that was let go and found its engine held again takes its old place. */
  #add(model: string, waiting: Waiting): void {
    const queue = this.#queues.get(model) ?? [];
    if (queue.length === 0) this.#queues.set(model, queue);
    let at = queue.length;
    while (at > 0 && queue[at - 1]!.sinceMs > waiting.sinceMs) at--;
    queue.splice(at, 0, waiting);
    this.#onChange();
  }

  #remove(model: string, waiting: Waiting): void {
    const queue = this.#queues.get(model);
    const at = queue?.indexOf(waiting) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.splice(at, 1);
    if (queue.length === 0) this.#queues.delete(model);
    this.#onChange();
  }

  #tooLate(model: string, limitMs: number, isOwn: boolean): CgnError {
    const workers = this.#fleet.group(model)?.workers ?? [];
    const reasons = Object.fromEntries(workers.map((w) => [w.id, this.#fleet.whyNot(w) ?? "ready"]));
    const said = Object.entries(reasons).map(([id, why]) => `${id} ${why}`);
    const whose = isOwn ? `, the request's own ${DEADLINE}` : "";
    const is = `it was not loaded within ${Math.round(limitMs / 100) / 10} s${whose} (${said.join("; ")})`;
    const raise = isOwn ? DEADLINE : "[swap].queue_timeout";
    const message = `Cannot route model "${model}": ${is}. Try again in ${RETRY_AFTER_S} s, or raise ${raise}`;
    return new CgnError("NO_WORKER", message, { model, reasons, retryAfterS: RETRY_AFTER_S }) as CgnError;
  }
}

const DEADLINE = "x-cgn-deadline-ms";

/**
 * `x-cgn-deadline-ms`: how long the client itself would wait, in milliseconds; without one for ever.
 * @throws CgnError REQUEST_INVALID when it is no number above 0
 */
export function ownDeadline({ req }: Pick<Exchange, "req">): number {
  const text = req.headers[DEADLINE];
  if (text === undefined) return Number.POSITIVE_INFINITY;
  if (typeof text === "string" && /^\d{1,12}(\.\d+)?$/.test(text) && Number(text) > 0) return Number(text);
  const said = String(text).slice(0, 40);
  const message = `Cannot take header ${DEADLINE} "${said}": it is no number of milliseconds above 0. Write for example 2000`;
  throw new CgnError("REQUEST_INVALID", message, { param: DEADLINE });
}

const left = (): CgnError => new CgnError("CALLER_LEFT", "Client left while its model was loaded", {}) as CgnError;

function tooMany(model: string, most: number): CgnError {
  const message = `Cannot admit a request for "${model}": ${most} wait for it to be loaded (router.admission.max_queue). Try again later`;
  return new CgnError("OVERLOADED", message, { retryAfterS: RETRY_AFTER_S, reason: "queue full" } as {
    retryAfterS: number;
  }) as CgnError;
}
