import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** The beginning of a run tells what it was started with, its end why it ended. */
const HEAD_BYTES = 64 * 1024;
const TAIL_BYTES = 192 * 1024;

/** What one run of a process wrote, bounded: its first 64 KiB and its last 192 KiB. */
export class RunRecord {
  #head: Uint8Array[] = [];
  #headBytes = 0;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #leftOut = 0;

  push(chunk: Uint8Array): void {
    const room = HEAD_BYTES - this.#headBytes;
    if (room > 0) {
      const first = chunk.subarray(0, room);
      // A copy: the chunk may be a view into a larger buffer, which would be kept with it.
      this.#head.push(Uint8Array.from(first));
      this.#headBytes += first.byteLength;
    }
    const rest = Uint8Array.from(chunk.subarray(Math.max(0, room)).subarray(-TAIL_BYTES));
    this.#leftOut += Math.max(0, chunk.byteLength - Math.max(0, room)) - rest.byteLength;
    if (rest.byteLength === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.byteLength;
    while (this.#tailBytes - this.#tail[0]!.byteLength >= TAIL_BYTES) {
      const { byteLength } = this.#tail.shift()!;
      this.#tailBytes -= byteLength;
      this.#leftOut += byteLength;
    }
  }

  clear(): void {
    this.#head = [];
    this.#tail = [];
    this.#headBytes = this.#tailBytes = this.#leftOut = 0;
  }

  /** The record as a file would hold it; what was left out is said in a line. */
  bytes(): Uint8Array {
    const gap = this.#leftOut === 0 ? [] : [Buffer.from(`\n… ${this.#leftOut} bytes left out …\n`)];
    return Buffer.concat([...this.#head, ...gap, ...this.#tail]);
  }

  /** Write it in place of an earlier one; by rename, so that a reader never sees half of it. @throws Error (errno) */
  save(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.new`, this.bytes(), { mode: 0o640 });
    renameSync(`${path}.new`, path);
  }
}
