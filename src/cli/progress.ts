import { STDERR_LINE, type TerminalLine } from "../telemetry/terminal-line.ts";

const WIDTH = 30;
const TICK_MS = 200;

/** A running progress bar. */
export interface Progress {
  /** `share` from 0 to 1, and a few words that stand behind the bar. */
  update(share: number, note?: string): void;
  /** Ends the bar with its last word. */
  done(note?: string): void;
  /** Ends it where it is, with a last word. */
  stop(note: string): void;
}

interface ProgressOutput {
  readonly line: TerminalLine;
  /** A terminal redraws one line; anything else gets a line at the start and one at the end. */
  readonly terminal: boolean;
  readonly columns: number;
  now(): number;
}

/** One bar on stderr. */
export function startProgress(label: string, output: ProgressOutput = stderrOutput()): Progress {
  const started = output.now();
  let reached = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  const seconds = (): string => `${((output.now() - started) / 1000).toFixed(1)} s`;
  const draw = (share: number, note: string): void => {
    const part = Math.min(1, Math.max(0, share));
    const filled = Math.round(WIDTH * part);
    const bar = `${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}`;
    const line = `${label.padEnd(18)} [${bar}] ${String(Math.round(part * 100)).padStart(3)} % ${seconds()} ${note}`;
    // An engine's own line breaks and control characters would move the cursor.
    output.line.draw(line.replaceAll(/\p{Cc}+/gu, " ").slice(0, output.columns - 1));
  };
  const end = (share: number, note: string): void => {
    if (output.terminal) {
      draw(share, note);
      output.line.end();
    } else {
      output.line.print(`${label}: ${note === "" ? "" : `${note}, `}${seconds()}\n`);
    }
  };
  if (!output.terminal) output.line.print(`${label} …\n`);
  return {
    update(share, note = "") {
      reached = share;
      if (!output.terminal || output.now() - drawnAt < TICK_MS) return;
      drawnAt = output.now();
      draw(share, note);
    },
    done: (note = "") => end(1, note),
    stop: (note) => end(reached, note),
  };
}

function stderrOutput(): ProgressOutput {
  return {
    line: STDERR_LINE,
    terminal: process.stderr.isTTY === true,
    columns: process.stderr.columns ?? 100,
    now: () => performance.now(),
  };
}
