import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { MatchQuery, Outcome, PredictionVerdict } from "../core/prefix-knowledge.ts";
import { hasOneEpoch } from "../core/worker.ts";
import type { AppliedIndex } from "./applied-index.ts";
import { Canonicity } from "./canonicity.ts";
import type { FollowedWorker } from "./followed-worker.ts";
import { OffloadWatch } from "./offload-watch.ts";
import { type CanonicityHearer, type CanonicityLink, startCanonicityThread } from "./start-canonicity-thread.ts";
import { TruthBook } from "./truth-book.ts";
import type { TruthFacts } from "./truth-meter.ts";

export interface TrustOptions {
  readonly index: AppliedIndex;
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly fetch: typeof fetch;
  readonly workers: ReadonlyMap<WorkerId, FollowedWorker>;
  changed(): void;
  /** Where generated tokens are checked. Default: a thread of its own. */
  readonly startCheck?: ((hearer: CanonicityHearer) => CanonicityLink) | undefined;
}

/** How far each worker's source can be believed: generated tokens are checked, predictions measured, alarms raised. */
export class Trust {
  readonly #canonicity: Canonicity;
  readonly #book: TruthBook;
  readonly #offload: OffloadWatch;

  constructor(options: TrustOptions) {
    const { index, clock, log, env, workers, startCheck } = options;
    const changed = () => options.changed();
    const start = startCheck ?? ((hearer: CanonicityHearer) => startCanonicityThread(env, hearer));
    this.#canonicity = new Canonicity({ index, clock, log, start, changed });
    this.#offload = new OffloadWatch({
      ...{ clock, fetch: options.fetch },
      workers: () => [...workers.values()].map((worker) => worker.info),
    });
    const facts = () => new Map([...workers].map(([id, worker]) => [id, this.#facts(worker)]));
    this.#book = new TruthBook({ clock, log, facts, changed });
  }

  /** A worker is followed anew. */
  follow(worker: FollowedWorker): void {
    this.forget(worker.info.id);
    this.#canonicity.follow(worker.slot, worker.info);
  }

  forget(id: WorkerId): void {
    this.#book.forget(id);
    this.#offload.forget(id);
  }

  sent(worker: FollowedWorker, query: MatchQuery): void {
    this.#canonicity.sent(worker.slot, query.prompt);
  }

  observed(worker: FollowedWorker, outcome: Outcome): void {
    if (outcome.epoch !== worker.info.epoch && hasOneEpoch(worker.info)) return;
    this.#canonicity.observed(worker.slot, outcome);
    this.#book.observe(outcome.worker, outcome.predictedTokens, outcome.cachedTokens);
  }

  /** A wrong prediction was explained, or was not. */
  judged(worker: FollowedWorker, { result }: PredictionVerdict): void {
    if (result === "in_flight" || result === "unexplained") this.#book.judged(worker.info.id, result);
  }

  /** A source's status with what is known of its truth. */
  statusOf(worker: FollowedWorker): KvSourceStatus {
    const canonicity = this.#canonicity.status(worker.slot);
    const { id } = worker.info;
    return {
      ...worker.status(),
      ...(canonicity === undefined ? {} : { canonicity }),
      ...{ truth: this.#book.windows(id), alarms: this.#book.alarms(id) },
    };
  }

  close(): void {
    this.#canonicity.close();
    this.#book.close();
    this.#offload.close();
  }

  #facts(worker: FollowedWorker): TruthFacts {
    const { info, evidence } = worker;
    const { kv, blockTokens } = info;
    const { unfit = "" } = this.#canonicity.evidence(worker.slot);
    return {
      type: kv.type,
      endpoint: kv.type === "events" ? kv.endpoint : "",
      events: evidence.events,
      lostStretches: evidence.lostStretches,
      orphanedBlocks: evidence.orphanedBlocks,
      announcedBlockTokens: blockTokens,
      seenBlockTokens: evidence.blockTokens,
      mismatch: evidence.mismatch || unfit,
      offload: this.#offload.hits(info.id),
    };
  }
}
