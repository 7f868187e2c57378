import type { WorkerId } from "./ids.ts";
import type { Tier } from "./kv-event.ts";

/** All tiers, fastest first. */
export const TIER_NAMES: readonly Tier[] = ["device", "host", "disk", "shared"];

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
  /** Blocks held now, by events; 0 for history. */
  readonly blocks: number;
  /** Told by events since this run of kvcached follows the worker. */
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
  /** Who says where its events are: `configuration`, `agent` or `engine`; absent for history, or when nobody told. */
  readonly origin?: string;
  /** The check of generated tokens; undefined for history. */
  readonly canonicity?: KvCanonicity;
  /** How good predictions were lately, the shortest stretch first. */
  readonly truth?: readonly KvTruthWindow[];
  /** What is wrong with what is known of it. */
  readonly alarms?: readonly KvAlarm[];
}

/** How generated tokens are checked for being the ones that their text gets when it comes back. */
export interface KvCanonicity {
  readonly state: "starting" | "checking" | "off";
  /** Why it is off; "" otherwise. */
  readonly detail: string;
  readonly checkedTokens: number;
  /** Not compared: too much at once, or the text before is not known. */
  readonly skippedTokens: number;
  /** Not compared since a router had sent that text. */
  readonly sentTokens: number;
  /** Blocks that do not count. */
  readonly uncountedBlocks: number;
}

/** Predicted against reported cached tokens over the last `seconds`. */
export interface KvTruthWindow {
  readonly seconds: number;
  /** With a reported figure. */
  readonly requests: number;
  readonly exact: number;
  /** Not exact, and explained by an event that came after the request was sent; or by nothing. The rest is not judged yet. */
  readonly inFlight: number;
  readonly unexplained: number;
  readonly predictedTokens: number;
  readonly reportedTokens: number;
}

/** What can be wrong with the knowledge of an engine's cache, see docs/alarms.md. */
export const KV_ALARM_CODES = [
  "PUBLISHER_MISSING",
  "BLOCK_SIZE_WRONG",
  "TOKENIZER_MISMATCH",
  "EVENTS_LOST",
  "OFFLOAD_NEVER_HITS",
] as const;
export type KvAlarmCode = (typeof KV_ALARM_CODES)[number];

export interface KvAlarm {
  readonly code: KvAlarmCode;
  /** What is wrong, and what to do. */
  readonly message: string;
  /** It stands for so long. */
  readonly forMs: number;
}

/** The snapshot on disk, from which a restarted kvcached knows again what it knew. */
export interface KvSnapshotStatus {
  /** "" where none is kept. */
  readonly path: string;
  /** `waiting`: none was written yet; `restoring`: the one of the last run is being read and checked with the engines. */
  readonly state: "off" | "waiting" | "restoring" | "written" | "failing";
  /** What is wrong, or what became of the file at the start; "" when there is nothing to say. */
  readonly detail: string;
  /** Milliseconds since the last one was written; undefined before the first. */
  readonly ageMs?: number;
  readonly bytes: number;
  readonly blocks: number;
  /** Workers whose part of the file was believed at the start, and those whose part was not. */
  readonly restored: number;
  readonly dropped: number;
}

/** Somebody who watches kvcached, a router with a copy of its index for example. */
export interface KvWatcher {
  readonly name: string;
  readonly state: "snapshot" | "live";
  /** Bytes of changes that it has not taken yet. */
  readonly behindBytes: number;
  readonly connectedMs: number;
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
  /** Blocks by the tier they lie in; one that lies in two counts in both. */
  readonly tiers: Readonly<Record<Tier, number>>;
  readonly snapshot: KvSnapshotStatus;
  readonly watchers: readonly KvWatcher[];
  /** This run of kvcached. */
  readonly instance: string;
}
