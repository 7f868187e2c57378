import type { EncodedDelta } from "../wire/watch-message.ts";

/** A place in the log: the version that was taken last. */
export interface LogCursor {
  version: number;
}

/** Recent changes of the index by their versions, bounded in bytes: from here watchers go on after a cut. */
export class WatchLog {
  /** Entry i has version `#first + i`; what lies before `#head` is forgotten. */
  #entries: { readonly delta: EncodedDelta; readonly bytes: number }[] = [];
  #head = 0;
  #first = 1;
  #bytes = 0;
  /** Bytes ever written, for how far a cursor is behind. */
  #written = 0;
  readonly #maxBytes: () => number;

  /** @param maxBytes - asked at each change; older ones are forgotten beyond it */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
  }

  /** Version of the last change. */
  get version(): number {
    return this.#first + this.#entries.length - 1;
  }

  get bytes(): number {
    return this.#bytes;
  }

  append(delta: EncodedDelta, bytes: number): void {
    this.#entries.push({ delta, bytes });
    this.#bytes += bytes;
    this.#written += bytes;
    const max = this.#maxBytes();
    while (this.#bytes > max && this.#head < this.#entries.length) this.#bytes -= this.#entries[this.#head++]!.bytes;
    // Seldom, so that it costs nothing a change.
    if (this.#head > 1_024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#first += this.#head;
      this.#head = 0;
    }
  }

  /** Forget all; nobody can go on from before this. */
  reset(): void {
    this.#first = this.version + 2;
    this.#entries = [];
    this.#head = 0;
    this.#bytes = 0;
  }

  /** Are all changes after this version still here? */
  reaches(version: number): boolean {
    return version >= this.#first + this.#head - 1 && version <= this.version;
  }

  /** The next changes for a cursor, about `most` bytes of them, and move it behind them; undefined when some are forgotten. */
  take(cursor: LogCursor, most: number): readonly EncodedDelta[] | undefined {
    if (!this.reaches(cursor.version)) return undefined;
    const taken: EncodedDelta[] = [];
    let at = cursor.version + 1 - this.#first;
    for (let bytes = 0; at < this.#entries.length && bytes < most; at++) {
      const entry = this.#entries[at]!;
      taken.push(entry.delta);
      bytes += entry.bytes;
    }
    cursor.version = this.#first + at - 1;
    return taken;
  }

  /** Bytes of changes after a version that are still here. */
  behind(version: number): number {
    let bytes = 0;
    for (let at = Math.max(this.#head, version + 1 - this.#first); at < this.#entries.length; at++) {
      bytes += this.#entries[at]!.bytes;
    }
    return bytes;
  }
}
