import { type FileHandle, open, stat } from "node:fs/promises";
import { rotatedNames } from "./log-bounds.ts";

export interface FollowOptions {
  /** Start this many bytes before the end; default 0: only what is new. */
  readonly fromEnd?: number;
  readonly onChunk: (chunk: Uint8Array) => void;
  /** How often to look. Default 250 ms. */
  readonly everyMs?: number;
  readonly signal: AbortSignal;
}

const CHUNK = 256 * 1024;
/** How many rotated files are looked through for the one that was read last. */
const MAX_ROTATED = 100;

/**
 * Reads what is appended to a file, over its rotation: by rename (`PATH` becomes `PATH.1`), also several times between two looks,
 * and by copy and truncation (what was not read yet is then read from `PATH.1`).
 */
export class FileFollower {
  readonly #path: string;
  readonly #onChunk: (chunk: Uint8Array) => void;
  #file: FileHandle | undefined;
  #inode = 0;
  #at: number | undefined;
  #fromEnd: number;

  /** @param from an offset to begin at, or how many bytes before the end (a file that is not there yet: from its start) */
  constructor(
    path: string,
    from: { readonly at: number } | { readonly fromEnd: number },
    onChunk: (chunk: Uint8Array) => void,
  ) {
    this.#path = path;
    this.#onChunk = onChunk;
    this.#at = "at" in from ? from.at : undefined;
    this.#fromEnd = "fromEnd" in from ? from.fromEnd : 0;
  }

  /** Read all that is there now. Not to be called again before it has settled. */
  async poll(): Promise<void> {
    const now = await stat(this.#path).catch(() => undefined);
    if (this.#file === undefined) return this.#begin(now);
    await this.#readOn();
    if (now === undefined) return;
    if (now.ino !== this.#inode) return this.#crossRotation();
    const { size } = await this.#file.stat();
    if (size >= this.#at!) return;
    await this.#readRest(`${this.#path}.1`, this.#at!);
    this.#at = 0;
    await this.#readOn();
  }

  async close(): Promise<void> {
    await this.#file?.close().catch(() => {});
    this.#file = undefined;
  }

  async #begin(now: { readonly size: number } | undefined): Promise<void> {
    if (now === undefined) {
      this.#at ??= 0;
      return;
    }
    this.#at ??= Math.max(0, now.size - this.#fromEnd);
    await this.#open();
    await this.#readOn();
  }

  async #open(): Promise<void> {
    this.#file = await open(this.#path, "r").catch(() => undefined);
    this.#inode = (await this.#file?.stat())?.ino ?? 0;
  }

  /** The file that was read is one of the rotated ones now; those between it and the new one are read whole. */
  async #crossRotation(): Promise<void> {
    const old = this.#inode;
    await this.#readOn();
    await this.close();
    const between: string[] = [];
    for (const name of rotatedNames(this.#path, MAX_ROTATED)) {
      const found = await stat(name).catch(() => undefined);
      // Not among them: it was rotated out of the last place, or the file was replaced.
      if (found === undefined) between.length = 0;
      if (found === undefined || found.ino === old) break;
      between.unshift(name);
    }
    for (const name of between) await this.#readRest(name, 0);
    this.#at = 0;
    await this.#open();
    await this.#readOn();
  }

  async #readOn(): Promise<void> {
    if (this.#file !== undefined) this.#at = await readFrom(this.#file, this.#at ?? 0, this.#onChunk);
  }

  async #readRest(path: string, from: number): Promise<void> {
    const file = await open(path, "r").catch(() => undefined);
    if (file === undefined) return;
    try {
      await readFrom(file, from, this.#onChunk);
    } finally {
      await file.close();
    }
  }
}

/** Read what is appended to a file, until the signal. A file that is not there yet is waited for. */
export async function followFile(path: string, options: FollowOptions): Promise<void> {
  const { fromEnd = 0, onChunk, everyMs = 250, signal } = options;
  const follower = new FileFollower(path, { fromEnd }, onChunk);
  try {
    while (!signal.aborted) {
      await follower.poll();
      await pause(everyMs, signal);
    }
  } finally {
    await follower.close();
  }
}

/** @returns the offset behind the last byte that was read */
async function readFrom(file: FileHandle, start: number, onChunk: (chunk: Uint8Array) => void): Promise<number> {
  for (let at = start; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK, at);
    if (bytesRead === 0) return at;
    at += bytesRead;
    onChunk(buffer.subarray(0, bytesRead));
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
