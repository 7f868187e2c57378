import { closeSync, fstatSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { FileFollower } from "./file-follow.ts";
import { createLineTail, type LineTail } from "./line-tail.ts";
import type { LogBounds } from "./log-bounds.ts";
import { openLogFile } from "./log-file.ts";
import { RunRecord } from "./run-record.ts";

/** Where the output of one supervised process goes: bounded files, and what the newest run wrote in memory. */
export interface ProcessOutput {
  readonly path: string;
  /** The last lines of the newest run. */
  readonly tail: LineTail;
  /** The newest run's first and last bytes. */
  readonly record: RunRecord;
  readonly droppedBytes: number;
  /**
   * A run begins: tail and record are its own from here on.
   * @param adopted it runs already, and its last lines are read back
   * @throws CgnError STORAGE_UNUSABLE
   */
  begin(adopted: boolean): void;
  push(chunk: Uint8Array): void;
  /** A descriptor for a process that must be able to write when the agent is gone; undefined: through the agent. */
  readonly fd: number | undefined;
  /** All that was written until now is in tail and record. */
  catchUp(): Promise<void>;
  /** Until the next `begin()`. */
  close(): Promise<void>;
}

export interface OutputOptions {
  readonly path: string;
  readonly bounds: LogBounds;
  /** True: the process writes the file itself; a log keeper (`log-keeper.ts`) then keeps the bounds. */
  readonly direct: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly onLines: () => void;
}

export function openProcessOutput(options: OutputOptions): ProcessOutput {
  return options.direct ? directOutput(options) : pipedOutput(options);
}

function pipedOutput({ path, bounds, clock, log, onLines }: OutputOptions): ProcessOutput {
  const tail = createLineTail();
  const record = new RunRecord();
  const onTrouble = (error: Error): void =>
    log.warn("engine log cannot be written, lines are dropped", { path, error });
  const file = openLogFile({ path, bounds, now: () => clock.now(), onTrouble });
  return {
    path,
    tail,
    record,
    fd: undefined,
    get droppedBytes() {
      return file.droppedBytes;
    },
    begin() {
      tail.clear();
      record.clear();
    },
    push(chunk) {
      tail.push(chunk);
      record.push(chunk);
      file.write(chunk);
      onLines();
    },
    catchUp: async () => {},
    close: () => file.close(),
  };
}

/** How often the file that a process writes itself is read. */
const READ_MS = 250;
/** How much of an adopted process's past output is read back. */
const BACK_BYTES = 128 * 1024;

function directOutput({ path, clock, onLines }: OutputOptions): ProcessOutput {
  const tail = createLineTail();
  const record = new RunRecord();
  let fd: number | undefined;
  let follower: FileFollower | undefined;
  let reading = Promise.resolve();
  let cancel = (): void => {};

  // A file that cannot be read only ends the view of it.
  const read = (): Promise<void> => (reading = reading.then(() => follower?.poll()).catch(() => {}));
  const readLater = (): void => {
    cancel = clock.after(READ_MS, () => void read().then(readLater));
  };
  const close = async (): Promise<void> => {
    if (fd === undefined) return;
    cancel();
    closeSync(fd);
    fd = undefined;
    const ended = follower;
    follower = undefined;
    await reading;
    cancel();
    await ended?.close();
  };
  return {
    path,
    tail,
    record,
    get fd() {
      return fd;
    },
    droppedBytes: 0,
    begin(adopted) {
      const first = fd === undefined;
      fd ??= openAppend(path);
      tail.clear();
      record.clear();
      const { size } = fstatSync(fd);
      const before = follower;
      follower = new FileFollower(path, { at: adopted ? Math.max(0, size - BACK_BYTES) : size }, (chunk) => {
        tail.push(chunk);
        record.push(chunk);
        onLines();
      });
      void before?.close();
      if (first) readLater();
    },
    push: () => {},
    catchUp: read,
    close,
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
