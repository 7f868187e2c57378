import { existsSync } from "node:fs";
import type { Log } from "../core/log.ts";
import type { RunRecord } from "./run-record.ts";

/** Which run: the newest that was stable, or the newest that ended without being asked to. */
export type KeptRun = "good" | "bad";

/** The file beside a log that holds what such a run wrote. `PATH.good` is no `.log`, so that nobody takes it for an engine's own. */
export const keptRunPath = (logFile: string, which: KeptRun): string => `${logFile}.${which}`;

/**
 * The logs of two runs, kept apart from the log that goes on: an engine that ends again and again would write over what it said
 * while it worked, and over its first trouble. Each at most 256 KiB (`RunRecord`).
 */
export class KeptRuns {
  readonly #logFile: string;
  readonly #log: Log;
  readonly #there: Record<KeptRun, boolean>;

  constructor(logFile: string, log: Log) {
    this.#logFile = logFile;
    this.#log = log;
    this.#there = { good: existsSync(keptRunPath(logFile, "good")), bad: existsSync(keptRunPath(logFile, "bad")) };
  }

  save(which: KeptRun, record: RunRecord): void {
    const path = keptRunPath(this.#logFile, which);
    try {
      record.save(path);
      this.#there[which] = true;
    } catch (error) {
      this.#log.warn("a run's log cannot be kept", { path, error });
    }
  }

  paths(): { readonly goodLog?: string; readonly badLog?: string } {
    const path = (which: KeptRun): string => keptRunPath(this.#logFile, which);
    return {
      ...(this.#there.good ? { goodLog: path("good") } : {}),
      ...(this.#there.bad ? { badLog: path("bad") } : {}),
    };
  }
}
