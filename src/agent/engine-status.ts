import type { CgnError } from "../core/errors.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { WorkerInfo, WorkerState } from "../core/worker.ts";

/** How far an engine's start is; for a progress bar. */
export interface LoadProgress {
  readonly elapsedMs: number;
  /** After this long since its start it is given up. */
  readonly deadlineMs: number;
  /** What the engine wrote last. */
  readonly lastLine: string;
}

/** One engine of this agent, for status pages and progress displays. */
export interface EngineStatus {
  readonly worker: WorkerInfo;
  /** How it keeps KV beyond its GPU. */
  readonly kvOffload?: KvOffload;
  /** False: somebody else's process. */
  readonly spawned: boolean;
  /** It will not come up by itself any more. */
  readonly failed: boolean;
  /** It was ended on request. */
  readonly stopped: boolean;
  readonly pid?: number;
  /** Processes started so far. */
  readonly starts: number;
  /** While it loads. */
  readonly progress?: LoadProgress;
  readonly error?: CgnError;
  readonly logFile?: string;
  /** Ends in the last quarter of an hour that nobody asked for, in words; absent or empty: one at most. */
  readonly crashes?: string;
  /** It ends again and again. */
  readonly looping?: boolean;
  /** What the newest run wrote that was stable, and the newest that ended by itself. */
  readonly goodLog?: string;
  readonly badLog?: string;
  /** Output that could not be written to its log file. */
  readonly droppedLogBytes: number;
}

/** Each worker state as a metric label. */
export const WORKER_STATES: readonly WorkerState[] = ["starting", "ready", "draining", "down", "unloaded", "asleep"];
