import { spawn } from "node:child_process";
import type { LogBounds } from "./log-bounds.ts";

/**
 * `sh -c LOG_KEEPER cgn-log-keeper PGID PATH BYTES OLDEST`: keeps the bound of a log that an engine writes itself, for as long as
 * the engine's group is there, with or without an agent (`keep_engines`).
 *
 * The writer holds the file open for appending, so a rename would not stop it from growing: the file is copied and truncated. What
 * is written between the two is lost; a pipe through a process of ours would lose the engine with that process.
 */
export const LOG_KEEPER = [
  "trap '' HUP INT TERM",
  'while kill -s 0 -- "-$1" 2>/dev/null; do',
  "  sleep 2",
  '  size=$(wc -c 2>/dev/null <"$2") || continue',
  '  [ "$size" -gt "$3" ] || continue',
  "  i=$4",
  '  while [ "$i" -gt 1 ]; do',
  "    older=$((i-1))",
  '    [ -f "$2.$older" ] && mv -f "$2.$older" "$2.$i"',
  "    i=$older",
  "  done",
  '  [ "$4" -gt 0 ] && cp "$2" "$2.1" 2>/dev/null',
  '  : >"$2"',
  "done",
].join("\n");

/** Start one for a group. Failing to is no reason not to run the engine: its log is then bounded by nothing. */
export function startLogKeeper(pgid: number, path: string, bounds: LogBounds): void {
  const words = [String(pgid), path, String(Math.max(1, bounds.fileBytes)), String(bounds.files - 1)];
  const child = spawn("/bin/sh", ["-c", LOG_KEEPER, "cgn-log-keeper", ...words], {
    detached: true,
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    stdio: "ignore",
  });
  child.on("error", () => {});
  child.unref();
}
