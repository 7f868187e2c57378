import type { Log } from "../core/log.ts";
import { createStderrLog, LOG_LEVELS } from "../telemetry/log.ts";
import type { CliContext, Values } from "./command.ts";

/** The log of a command with `LOG_OPTIONS`. */
export function commandLog(options: Values, cli: Pick<CliContext, "color">): Log {
  const level = LOG_LEVELS.find((each) => each === options["logLevel"]) ?? "info";
  return createStderrLog({ color: cli.color, level });
}
