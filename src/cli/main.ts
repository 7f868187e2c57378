import { constants } from "node:os";
import { formatProblem } from "../config/problems.ts";
import { CODES, type Problem, toCgnError } from "../core/errors.ts";
import { STDERR_LINE } from "../telemetry/terminal-line.ts";
import type { CliContext } from "./command.ts";
import { COMMAND_GROUPS, COMMANDS } from "./commands.ts";
import { packageVersion } from "./package-version.ts";
import { runProgram } from "./program.ts";
import { brokenOff } from "./stop-code.ts";
import { storageFailure } from "./storage-failure.ts";
import { systemClock } from "./system-clock.ts";

/** What a person sees of an error: the message, then each problem in a line. A stack only for our own bugs. */
export function describeError(
  thrown: unknown,
  env: CliContext["env"],
): { readonly lines: readonly string[]; readonly exit: number } {
  const e = storageFailure(thrown, env) ?? toCgnError(thrown);
  const lines = [`cgn: ${e.message}`];
  const problems = (e.details as { problems?: readonly Problem[] }).problems;
  // One problem is told in the message already.
  const untold = (problems ?? []).filter((p) => !e.message.includes(p.problem));
  lines.push(...untold.map((p) => `  ${formatProblem(p)}`));
  // What an engine wrote last, with whatever code its end has.
  const tail = (e.details as { tail?: string }).tail ?? "";
  if (tail !== "")
    lines.push(
      ...tail
        .trimEnd()
        .split("\n")
        .map((line) => `  | ${line}`),
    );
  if (e.code === "BUG")
    lines.push(e.cause instanceof Error && e.cause.stack ? e.cause.stack : (e.stack ?? ""), "This is a bug in cgn");
  return { lines, exit: CODES[e.code].exit };
}

/**
 * Stop signals become one abort, so that commands end in order; a second one ends at once.
 * The exit code is 128 + the signal's number unless the command gives its own.
 *
 * SIGHUP is a stop signal unless somebody listens for it; at a terminal always, for then it means that the terminal is closed.
 */
function watchSignals(hangups: ReadonlySet<() => void>): AbortController {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      if (name === "SIGHUP" && hangups.size > 0 && process.stdin.isTTY !== true && process.stderr.isTTY !== true) {
        for (const listener of hangups) listener();
        return;
      }
      if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
      controller.abort(name);
    });
  }
  return controller;
}

/** A reader that went away (`cgn table | head`) is no failure; output that cannot be written (a full disk) is one. */
function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (e: NodeJS.ErrnoException) => {
      if (e.code === "EPIPE") process.exit(0);
      if (stream === process.stdout) process.stderr.write(`cgn: Cannot write the output: ${e.message}\n`);
      process.exit(1);
    });
  }
}

/** Did something fail only because a stop was asked for? What waits for the signal rejects with its reason, or names it as the cause. */
export function isStop(thrown: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  for (let e = thrown, depth = 0; e !== undefined && depth < 5; e = (e as Error).cause, depth++) {
    if (e === signal.reason || (e instanceof Error && e.name === "AbortError")) return true;
    if (!(e instanceof Error)) return false;
  }
  return false;
}

export async function main(argv: readonly string[]): Promise<void> {
  watchOutput();
  const hangups = new Set<() => void>();
  const stop = watchSignals(hangups);
  const cli: CliContext = {
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => STDERR_LINE.print(`${text}\n`),
    env: process.env,
    cwd: process.cwd(),
    color: process.stderr.isTTY === true && !process.env["NO_COLOR"],
    signal: stop.signal,
    onHangup(listener) {
      hangups.add(listener);
      return () => void hangups.delete(listener);
    },
    clock: systemClock(),
  };
  try {
    process.exitCode = await runProgram(COMMANDS, argv, cli, { version: packageVersion(), groups: COMMAND_GROUPS });
  } catch (e) {
    if (isStop(e, stop.signal)) {
      cli.err("cgn: stopped");
      process.exitCode = brokenOff(stop.signal);
    } else {
      const { lines, exit } = describeError(e, cli.env);
      for (const line of lines) cli.err(line);
      process.exitCode = exit;
    }
  }
  // Sockets of a command that failed half-way must not keep the process; output is flushed first.
  process.stdout.write("", (error) => {
    // What went wrong with the output itself is told by its `error` event, which comes after this.
    if (error === undefined || error === null) process.exit(process.exitCode);
  });
}
