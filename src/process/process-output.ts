import { closeSync, copyFileSync, mkdirSync, openSync, statSync, truncateSync } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { followFile } from "./file-follow.ts";
import { createLineTail, type LineTail } from "./line-tail.ts";
import { openLogFile } from "./log-file.ts";

/** Where the output of one supervised process goes: a bounded file, and the last lines in memory. */
export interface ProcessOutput {
  readonly path: string;
  readonly tail: LineTail;
  readonly droppedBytes: number;
  push(chunk: Uint8Array): void;
  /** A descriptor for a process that must be able to write when the agent is gone; undefined: through the agent. */
  readonly fd: number | undefined;
  close(): Promise<void>;
}

export interface OutputOptions {
  readonly path: string;
  readonly maxBytes: number;
  /** True: the process writes the file itself. Then the bound is kept by copying and truncating now and then. */
  readonly direct: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly onLines: () => void;
}

export function openProcessOutput(options: OutputOptions): ProcessOutput {
  return options.direct ? directOutput(options) : pipedOutput(options);
}

function pipedOutput({ path, maxBytes, clock, log, onLines }: OutputOptions): ProcessOutput {
  const tail = createLineTail();
  const onTrouble = (error: Error): void =>
    log.warn("engine log cannot be written, lines are dropped", { path, error });
  const file = openLogFile({ path, maxBytes, now: () => clock.now(), onTrouble });
  return {
    path,
    tail,
    fd: undefined,
    get droppedBytes() {
      return file.droppedBytes;
    },
    push(chunk) {
      tail.push(chunk);
      file.write(chunk);
      onLines();
    },
    close: () => file.close(),
  };
}

/** How often the size of a file that the engine writes itself is looked at. */
const SIZE_CHECK_MS = 5_000;

function directOutput({ path, maxBytes, clock, onLines }: OutputOptions): ProcessOutput {
  const tail = createLineTail();
  const end = new AbortController();
  const fd = openAppend(path);
  const following = followFile(path, {
    signal: end.signal,
    onChunk: (chunk) => {
      tail.push(chunk);
      onLines();
    },
    // A file that cannot be read any more only ends the view of it.
  }).catch(() => {});
  let cancel = (): void => {};
  const check = (): void => {
    keepBound(path, maxBytes);
    cancel = clock.after(SIZE_CHECK_MS, check);
  };
  check();
  return {
    path,
    tail,
    fd,
    droppedBytes: 0,
    push: () => {},
    async close() {
      // A descriptor closed twice would be somebody else's the second time.
      if (end.signal.aborted) return;
      cancel();
      end.abort();
      closeSync(fd);
      await following;
    },
  };
}

/** @throws CgnError STORAGE_UNUSABLE */
function openAppend(path: string): number {
  try {
    mkdirSync(dirname(path), { recursive: true });
    return openSync(path, "a", 0o640);
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot write the log "${path}": ${said}. Set [agent].log_dir to a folder that can be written`,
      { path },
      { cause },
    );
  }
}

/** The writer holds the file open for appending, so a rename would not stop it from growing. */
function keepBound(path: string, maxBytes: number): void {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= maxBytes / 2) return;
  try {
    copyFileSync(path, `${path}.1`);
  } catch {
    // No room for the copy: the bound matters more than the old lines.
  }
  truncateSync(path, 0);
}
