import { pino } from "pino";
import type { Log, LogFields } from "../core/log.ts";
import { SILENT_LOG } from "../core/log.ts";
import { prettyLine } from "./pretty.ts";
import { redactFields, redactText } from "./redact.ts";
import { STDERR_LINE } from "./terminal-line.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogOptions {
  /** Default `info`. */
  readonly level?: LogLevel;
  /** `pretty`: one readable line; `json`: one object a line. */
  readonly format: "pretty" | "json";
  /** Colours in pretty lines. Default false. */
  readonly color?: boolean;
  /** Takes one finished line, newline included. */
  write(line: string): void;
}

/** More keys than this are forgotten from the oldest on, so that a key made from input cannot fill the memory. */
const MAX_ONCE_KEYS = 10_000;

/**
 * The program's log, on pino. Lines carry `time` (ISO 8601 in JSON), `level`, `msg` and the given fields.
 *
 * Secrets and prompts are hidden by field name and by shape (`redact.ts`).
 */
export function createLog(options: LogOptions): Log {
  const { format, color = false, write } = options;
  const logger = pino(
    {
      level: options.level ?? "info",
      base: null,
      timestamp: format === "json" ? pino.stdTimeFunctions.isoTime : pino.stdTimeFunctions.epochTime,
      // Errors are data already (`redactFields`); pino's own serializer would add an empty stack.
      serializers: { err: (err: unknown) => err },
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => write(format === "json" ? line : prettyLine(line, color)) },
  );
  return wrap(logger, new Set());
}

/** The log of a command: pretty on a terminal, JSON lines elsewhere (what journald and log shippers want), on stderr. */
export function createStderrLog(options: { readonly level?: LogLevel; readonly color?: boolean } = {}): Log {
  const format = process.stderr.isTTY ? "pretty" : "json";
  return createLog({ ...options, format, write: (line) => STDERR_LINE.print(line) });
}

interface Sink {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  isLevelEnabled(level: string): boolean;
  child(fields: object): Sink;
}

function wrap(sink: Sink, seen: Set<string>): Log {
  const say = (level: "debug" | "info" | "warn" | "error") => (message: string, fields?: LogFields) => {
    if (sink.isLevelEnabled(level)) sink[level](fields === undefined ? {} : redactFields(fields), redactText(message));
  };
  const log: Log = {
    debug: say("debug"),
    info: say("info"),
    warn: say("warn"),
    error: say("error"),
    once(key) {
      if (seen.has(key)) return SILENT_LOG;
      if (seen.size >= MAX_ONCE_KEYS) seen.delete(seen.values().next().value ?? "");
      seen.add(key);
      return log;
    },
    child: (fields) => wrap(sink.child(redactFields(fields)), seen),
  };
  return log;
}
