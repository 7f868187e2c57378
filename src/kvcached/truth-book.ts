import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvAlarm, KvAlarmCode, KvTruthWindow } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import {
  judgedTruth,
  judgeTruth,
  NEW_TRUTH,
  observeTruth,
  type TruthFacts,
  type TruthState,
  truthWindows,
} from "./truth-meter.ts";

export interface TruthBookOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** What is to be seen of each worker now. */
  facts(): ReadonlyMap<WorkerId, TruthFacts>;
  /** An alarm came or went. */
  changed(): void;
}

/** Alarms are looked for so often. */
const LOOK_MS = 5_000;

/** The truth meters of all workers: fed with what came of requests, looked at every few seconds. */
export class TruthBook {
  readonly #o: TruthBookOptions;
  readonly #states = new Map<WorkerId, TruthState>();
  #cancel: () => void;

  constructor(options: TruthBookOptions) {
    this.#o = options;
    this.#cancel = options.clock.after(LOOK_MS, () => this.#tick());
  }

  observe(worker: WorkerId, predicted: number, reported: number | undefined): void {
    const state = this.#states.get(worker) ?? NEW_TRUTH;
    this.#states.set(worker, observeTruth(state, predicted, reported, this.#o.clock.now()));
  }

  /** A wrong prediction was explained by an event that came late, or by nothing. */
  judged(worker: WorkerId, result: "in_flight" | "unexplained"): void {
    const state = this.#states.get(worker);
    if (state !== undefined) this.#states.set(worker, judgedTruth(state, result, this.#o.clock.now()));
  }

  /** What is known of this worker is void: it is another process now, or gone. */
  forget(worker: WorkerId): void {
    this.#states.delete(worker);
  }

  windows(worker: WorkerId): readonly KvTruthWindow[] {
    return truthWindows(this.#states.get(worker) ?? NEW_TRUTH, this.#o.clock.now());
  }

  alarms(worker: WorkerId): readonly KvAlarm[] {
    const now = this.#o.clock.now();
    return Object.entries(this.#states.get(worker)?.alarms ?? {}).map(([code, { message, since }]) => ({
      ...{ code: code as KvAlarmCode, message, forMs: now - since },
    }));
  }

  /** Look at once. */
  look(): void {
    const now = this.#o.clock.now();
    let changed = false;
    for (const [worker, facts] of this.#o.facts()) {
      const [state, changes] = judgeTruth(this.#states.get(worker) ?? NEW_TRUTH, facts, now);
      this.#states.set(worker, state);
      for (const { code, raised, message } of changes) {
        changed = true;
        if (raised) this.#o.log.warn("KV alarm", { worker, alarm: code, message });
        else this.#o.log.info("KV alarm is over", { worker, alarm: code });
      }
    }
    if (changed) this.#o.changed();
  }

  close(): void {
    this.#cancel();
  }

  #tick(): void {
    this.look();
    this.#cancel = this.#o.clock.after(LOOK_MS, () => this.#tick());
  }
}
