import type { WorkerId } from "./ids.ts";

/** What kvcached knows about one worker's source, for status pages, metrics and `cgn kv sources`. */
export interface KvSourceStatus {
  readonly worker: WorkerId;
  readonly model: string;
  readonly type: "events" | "history";
  /** `failed`: nothing can be known from it until what `detail` says is mended. */
  readonly state: "connecting" | "replaying" | "live" | "gap" | "silent" | "failed";
  /** Why it is in that state, with the remedy where one is known; "" when there is nothing to say. */
  readonly detail: string;
  readonly events: number;
  readonly blocksStored: number;
  readonly blocksRemoved: number;
  readonly gaps: number;
  readonly restarts: number;
  readonly malformed: number;
  /** -1 before the first message. */
  readonly lastSequence: number;
  /** Sums over requests whose engine reported cached tokens: the truth meter. */
  readonly predictedTokens: number;
  readonly reportedTokens: number;
  /** `unknown`, `equal`, or what differs: the finding of the parity probe. */
  readonly parity: string;
}

/** Figures of the index over all models. */
export interface KvStats {
  readonly workers: number;
  readonly runs: number;
  readonly blocks: number;
  readonly bytes: number;
  readonly capBytes: number;
  readonly lookups: number;
  readonly hits: number;
}
