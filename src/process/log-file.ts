import { closeSync, fstatSync, mkdirSync, openSync, renameSync, rmSync, write } from "node:fs";
import { dirname } from "node:path";
import { type LogBounds, rotatedNames } from "./log-bounds.ts";

/** A log on disk that never grows above a bound, and never stops the process that writes to it. */
export interface LogFile {
  /** Queue bytes. Drops them (and counts) when the disk cannot take them. */
  write(chunk: Uint8Array): void;
  /** Write what is queued and close. */
  close(): Promise<void>;
  readonly droppedBytes: number;
}

export interface LogFileOptions {
  readonly path: string;
  readonly bounds: LogBounds;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Told once for each time the disk stops taking lines. */
  readonly onTrouble?: (error: Error) => void;
}

/** Bytes that may wait for a slow disk; more are dropped, so that an engine is never blocked on its own log. */
const MAX_QUEUED = 4 * 1024 * 1024;
/** After a failed write (disk full, folder gone) the file is tried again this much later. */
const RETRY_MS = 5_000;

/** Open (on the first write) a bounded log file. Its folder is made. Writes go on in the background, in order. */
export function openLogFile(options: LogFileOptions): LogFile {
  let queue: Uint8Array[] = [];
  let queuedBytes = 0;
  let dropped = 0;
  let fd: number | undefined;
  let size = 0;
  let retryAt = Number.NEGATIVE_INFINITY;
  let pumping: Promise<void> | undefined;

  const drop = (bytes: number, error: Error): void => {
    dropped += bytes;
    if (retryAt === Number.NEGATIVE_INFINITY || options.now() >= retryAt) options.onTrouble?.(error);
    retryAt = options.now() + RETRY_MS;
    if (fd !== undefined) closeQuietly(fd);
    fd = undefined;
  };
  const open = (): number => {
    mkdirSync(dirname(options.path), { recursive: true });
    const opened = openSync(options.path, "a", 0o640);
    size = fstatSync(opened).size;
    return opened;
  };
  const put = async (batch: Uint8Array): Promise<void> => {
    if (fd === undefined && options.now() < retryAt) {
      dropped += batch.byteLength;
      return;
    }
    try {
      fd ??= open();
      if (size > 0 && size + batch.byteLength > options.bounds.fileBytes) {
        closeQuietly(fd);
        fd = undefined;
        rotate(options.path, options.bounds.files);
        fd = open();
      }
      await writeAll(fd, batch);
      size += batch.byteLength;
    } catch (error) {
      drop(batch.byteLength, error as Error);
    }
  };
  const pump = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = takeBatch(queue, options.bounds.fileBytes);
      queue = batch.rest;
      queuedBytes -= batch.bytes.byteLength;
      await put(batch.bytes);
    }
    pumping = undefined;
  };

  return {
    write(chunk) {
      if (queuedBytes + chunk.byteLength > MAX_QUEUED) {
        dropped += chunk.byteLength;
        return;
      }
      queue.push(chunk);
      queuedBytes += chunk.byteLength;
      pumping ??= pump();
    },
    async close() {
      await pumping;
      if (fd !== undefined) closeQuietly(fd);
      fd = undefined;
    },
    get droppedBytes() {
      return dropped;
    },
  };
}

/** `PATH` becomes `PATH.1`, that `PATH.2`, and so on; the oldest is gone. */
function rotate(path: string, files: number): void {
  const names = [path, ...rotatedNames(path, files)];
  if (names.length === 1) rmSync(path);
  for (let n = names.length - 2; n >= 0; n--) {
    try {
      renameSync(names[n]!, names[n + 1]!);
    } catch (error) {
      // Not so many are there yet.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

/** Chunks from the front, up to `limit` bytes together; one larger chunk is split. */
function takeBatch(queue: readonly Uint8Array[], limit: number): { bytes: Uint8Array; rest: Uint8Array[] } {
  const most = Math.max(1, Math.floor(limit));
  let count = 0;
  let bytes = 0;
  while (count < queue.length && bytes + queue[count]!.byteLength <= most) bytes += queue[count++]!.byteLength;
  if (count > 0) return { bytes: Buffer.concat(queue.slice(0, count)), rest: queue.slice(count) };
  const first = queue[0]!;
  return { bytes: first.subarray(0, most), rest: [first.subarray(most), ...queue.slice(1)] };
}

async function writeAll(fd: number, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.byteLength; ) {
    at += await new Promise<number>((resolve, reject) => {
      write(fd, bytes, at, bytes.byteLength - at, null, (error, written) => (error ? reject(error) : resolve(written)));
    });
  }
}

function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // A descriptor of a full disk may fail to close; there is nothing left to do with it.
  }
}
