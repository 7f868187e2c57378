const WIDTH = 30;
const TICK_MS = 200;

/** A running progress bar. */
export interface Progress {
  /** `share` from 0 to 1, and a few words that stand behind the bar. */
  update(share: number, note?: string): void;
  /** Ends the bar with its last word. */
  done(note?: string): void;
}

interface ProgressOutput {
  write(text: string): void;
  /** A terminal redraws one line; anything else gets a line at the start and one at the end. */
  readonly terminal: boolean;
  readonly columns: number;
  now(): number;
}

/** One bar on stderr. */
export function startProgress(label: string, output: ProgressOutput = stderrOutput()): Progress {
  const started = output.now();
  let drawnAt = Number.NEGATIVE_INFINITY;
  const seconds = (): string => `${((output.now() - started) / 1000).toFixed(1)} s`;
  const draw = (share: number, note: string): void => {
    const part = Math.min(1, Math.max(0, share));
    const filled = Math.round(WIDTH * part);
    const bar = `${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}`;
    const line = `${label.padEnd(18)} [${bar}] ${String(Math.round(part * 100)).padStart(3)} % ${seconds()} ${note}`;
    output.write(`\r\x1b[2K${line.slice(0, output.columns - 1)}`);
  };
  if (!output.terminal) output.write(`${label} …\n`);
  return {
    update(share, note = "") {
      if (!output.terminal || output.now() - drawnAt < TICK_MS) return;
      drawnAt = output.now();
      draw(share, note);
    },
    done(note = "") {
      if (output.terminal) {
        draw(1, note);
        output.write("\n");
      } else {
        output.write(`${label}: ${note === "" ? "" : `${note}, `}${seconds()}\n`);
      }
    },
  };
}

function stderrOutput(): ProgressOutput {
  return {
    write: (text) => void process.stderr.write(text),
    terminal: process.stderr.isTTY === true,
    columns: process.stderr.columns ?? 100,
    now: () => performance.now(),
  };
}
