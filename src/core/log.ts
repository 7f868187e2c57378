/** Facts beside a log message. Never prompts, answers or secrets: the logger hides what looks like one, but do not rely on it. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Where a part of the program says what happens. Made at the edge (`telemetry/log.ts`) and passed in. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** This log the first time `key` is given, a silent one ever after: `log.once("parity/m").warn(…)`. */
  once(key: string): Log;
  /** The same log with fields added to each line. */
  child(fields: LogFields): Log;
}

/** A log that says nothing: the default of tests. */
export const SILENT_LOG: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  once: () => SILENT_LOG,
  child: () => SILENT_LOG,
};
