import type { Clock } from "../core/clock.ts";
import type { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Look } from "./health.ts";
import type { Policy, StateName } from "./lifecycle.ts";
import type { LogBounds } from "./log-bounds.ts";
import type { KeptNote } from "./pid-file.ts";

/** A whole environment. */
export type Env = Readonly<Record<string, string>>;

/** One process to keep running. */
export interface ProcessSpec {
  /** For messages and logs. */
  readonly name: string;
  readonly argv: readonly string[];
  /** What of the environment belongs to this process: together with `argv` it tells a changed configuration. */
  readonly ownEnv: Readonly<Record<string, unknown>>;
  /** The whole environment; called at each start, so that secrets are read late. @throws CgnError */
  readonly env: () => Env;
  /** What must be there before a start: files to write, checks. @throws CgnError when a start cannot succeed */
  readonly prepare: (env: Env) => Promise<void>;
  /** Look at it. A process that loads is given more time for its answer. */
  readonly check: (loading: boolean) => Promise<Look>;
  /** Milliseconds between looks at a ready process; undefined: none (a look costs it work). */
  readonly healthEveryMs?: number;
  readonly policy: Policy;
  readonly logFile: string;
  readonly logBounds: LogBounds;
  /** `oom_score_adj` of the process, where the kernel has one. */
  readonly oomScoreAdj?: number;
  /** Epochs of its runs are above this. Default 0. */
  readonly epochAbove?: number;
  /** The process outlives this one and is found again by this file. Absent: a guard ends it with this process. */
  readonly pidFile?: string;
  /** What the file says besides. */
  readonly keptAs?: KeptNote;
  /** An earlier agent's process was taken over: `prepare()` was not run for it. */
  readonly adopted?: () => Promise<void>;
  /** Resolves when no request is left on it. Absent: the whole drain time is waited. */
  readonly drained?: (signal: AbortSignal) => Promise<void>;
}

export interface SupervisorDeps {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
  /** After each change of state, and with new output while the process loads (at most five times a second). */
  readonly onChange: (status: ProcessStatus) => void;
  /** A process ended without being asked to. */
  readonly onExit?: (cause: string) => void;
}

export interface ProcessStatus {
  readonly at: StateName;
  /** Why, for people. */
  readonly reason: string;
  /** Of the newest process: seconds since the epoch at its start, and always more than before. 0: none yet. */
  readonly epoch: number;
  readonly pid?: number;
  /** Processes started so far. */
  readonly starts: number;
  /** When it came into this state, monotonic milliseconds. */
  readonly sinceMs: number;
  /** Of the newest process: start, and when it must be ready. */
  readonly load?: { readonly startedMs: number; readonly deadlineMs: number };
  readonly lastLine: string;
  /** Ends in the last quarter of an hour that nobody asked for, in words; empty after a first one. */
  readonly crashes: string;
  /** It ends again and again. */
  readonly looping: boolean;
  /** What the newest run wrote that was stable, and the newest that ended without being asked to; absent while there is none. */
  readonly goodLog?: string;
  readonly badLog?: string;
  /** Why it does not run, while it does not. */
  readonly error?: CgnError;
}
