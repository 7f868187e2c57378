import type { CgnError } from "../core/errors.ts";
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
  /** Output that could not be written to its log file. */
  readonly droppedLogBytes: number;
}

/** An engine in the agent's care, its own process or not. */
export interface ManagedEngine {
  start(): void;
  /** Settles when it is ready or has failed; for an adopted one when it was asked once. */
  settled(): Promise<void>;
  /** Take it out of routing, or back in, without touching the process. */
  cordon(on: boolean): void;
  /** No request is left on it, or `signal` fired. */
  idle(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  /** Leave it running and look away. */
  release(): Promise<void>;
  status(): EngineStatus;
  /** What its launch made it ask of everyone. A secret. */
  readonly apiKey?: string;
}

/** Each worker state as a metric label. */
export const WORKER_STATES: readonly WorkerState[] = ["starting", "ready", "draining", "down"];
