import { open, stat } from "node:fs/promises";

export interface FollowOptions {
  /** Start this many bytes before the end; default 0: only what is new. */
  readonly fromEnd?: number;
  readonly onChunk: (chunk: Uint8Array) => void;
  /** How often to look. Default 250 ms. */
  readonly everyMs?: number;
  readonly signal: AbortSignal;
}

const CHUNK = 256 * 1024;

/**
 * Read what is appended to a file, until the signal. A file that is not there yet is waited for; one that was replaced or
 * became shorter (rotation) is read from its start.
 */
export async function followFile(path: string, options: FollowOptions): Promise<void> {
  const everyMs = options.everyMs ?? 250;
  let at = -1;
  let inode = 0;
  while (!options.signal.aborted) {
    const now = await stat(path).catch(() => undefined);
    if (now !== undefined) {
      if (at < 0) at = Math.max(0, now.size - (options.fromEnd ?? 0));
      else if (now.ino !== inode || now.size < at) at = 0;
      inode = now.ino;
      at = await readFrom(path, at, options);
    } else if (at < 0) at = 0;
    await pause(everyMs, options.signal);
  }
}

async function readFrom(path: string, start: number, { onChunk, signal }: FollowOptions): Promise<number> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return start;
  try {
    for (let at = start; ; ) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK, at);
      if (bytesRead === 0 || signal.aborted) return at;
      at += bytesRead;
      onChunk(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
