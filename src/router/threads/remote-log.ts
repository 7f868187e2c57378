import type { Log, LogFields } from "../../core/log.ts";
import type { FromDoor, LogLevel } from "./protocol.ts";

/** A log whose lines are written by the main thread, which also knows what was said once. */
export function remoteLog(post: (message: FromDoor) => void, more: LogFields = {}, once?: string): Log {
  const say =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void =>
      post({
        t: "log",
        level,
        message,
        fields: sendable({ ...more, ...fields }),
        ...(once === undefined ? {} : { once }),
      });
  return {
    debug: say("debug"),
    info: say("info"),
    warn: say("warn"),
    error: say("error"),
    once: (key) => remoteLog(post, more, key),
    child: (fields) => remoteLog(post, { ...more, ...fields }, once),
  };
}

function sendable(fields: LogFields): LogFields {
  try {
    return structuredClone(fields);
  } catch {
    return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]));
  }
}
