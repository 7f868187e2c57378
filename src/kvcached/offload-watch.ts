import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { OffloadHits } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";

export interface OffloadWatchOptions {
  readonly clock: Clock;
  readonly fetch: typeof fetch;
  workers(): readonly WorkerInfo[];
}

/** Engines are asked so often. */
const ASK_MS = 30_000;
const TIMEOUT_MS = 5_000;

/** Asks engines now and then what their offload tier gave. One that does not answer keeps its last figures. */
export class OffloadWatch {
  readonly #o: OffloadWatchOptions;
  readonly #hits = new Map<WorkerId, OffloadHits>();
  readonly #ended = new AbortController();
  #cancel: () => void;

  constructor(options: OffloadWatchOptions) {
    this.#o = options;
    this.#cancel = options.clock.after(ASK_MS, () => void this.#tick());
  }

  hits(worker: WorkerId): OffloadHits | undefined {
    return this.#hits.get(worker);
  }

  forget(worker: WorkerId): void {
    this.#hits.delete(worker);
  }

  close(): void {
    this.#cancel();
    this.#ended.abort();
  }

  async #tick(): Promise<void> {
    await Promise.all(this.#o.workers().map((worker) => this.#ask(worker)));
    if (!this.#ended.signal.aborted) this.#cancel = this.#o.clock.after(ASK_MS, () => void this.#tick());
  }

  async #ask({ id, kind, url, state }: WorkerInfo): Promise<void> {
    const probe = findEngine(kind).probe.offloadHits;
    if (probe === undefined || state !== "ready") return;
    try {
      const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const reply = await this.#o.fetch(`${url}${probe.path}`, { signal });
      const hits = reply.ok ? probe.parse(await reply.text()) : undefined;
      if (hits !== undefined) this.#hits.set(id, hits);
    } catch {
      // Busy, or gone: the agent sees to that.
    }
  }
}
