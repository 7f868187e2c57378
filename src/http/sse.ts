/** One server-sent event: its bytes as they came, and what its `data:` lines say. */
export interface SseEvent {
  /** Up to and with the blank line that ends it. */
  readonly raw: Buffer;
  /** The joined `data:` lines; undefined for an event without any (a comment, a keep-alive). */
  readonly data: Buffer | undefined;
}

const LF = 10;
const CR = 13;

/**
 * Cut a byte stream into server-sent events, whatever the chunks' borders. Lines end with LF or CRLF.
 *
 * A field counts only at a line's start: `data:` within JSON is none. An event larger than `maxEventBytes` is not
 * understood: `overflowed` turns true and the caller must go on blind.
 */
export class SseSplitter {
  readonly #maxEventBytes: number;
  /** The event that is not complete yet, in pieces: they are joined once, at its end. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** Bytes of its last line so far, and the first of them. */
  #lineBytes = 0;
  #lineFirst = 0;

  constructor(maxEventBytes = 4 * 1024 * 1024) {
    this.#maxEventBytes = maxEventBytes;
  }

  get overflowed(): boolean {
    return this.#restBytes > this.#maxEventBytes;
  }

  /** No event is begun. */
  get empty(): boolean {
    return this.#rest.length === 0;
  }

  /** Take a chunk; calls `onEvent` for each event that it completes. Copies only what crosses a chunk's border. */
  push(chunk: Buffer, onEvent: (event: SseEvent) => void): void {
    let eventStart = 0;
    let at = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, at)) {
      const bytes = this.#lineBytes + end - at;
      const first = this.#lineBytes > 0 ? this.#lineFirst : chunk[at];
      at = end + 1;
      this.#lineBytes = 0;
      if (bytes > 1 || (bytes === 1 && first !== CR)) continue;
      const raw = this.#take(chunk.subarray(eventStart, at));
      eventStart = at;
      onEvent({ raw, data: dataOf(raw) });
    }
    if (at < chunk.length) {
      if (this.#lineBytes === 0) this.#lineFirst = chunk[at]!;
      this.#lineBytes += chunk.length - at;
    }
    if (eventStart === chunk.length) return;
    this.#rest.push(eventStart === 0 ? chunk : chunk.subarray(eventStart));
    this.#restBytes += chunk.length - eventStart;
  }

  /** Bytes of an event that is not complete, and forget them. */
  flush(): Buffer | undefined {
    this.#lineBytes = 0;
    return this.#rest.length === 0 ? undefined : this.#take();
  }

  /** What is held, with what ends it. */
  #take(end?: Buffer): Buffer {
    if (this.#rest.length === 0 && end !== undefined) return end;
    const parts = end === undefined ? this.#rest : [...this.#rest, end];
    this.#rest = [];
    this.#restBytes = 0;
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }
}

/** The joined `data:` lines of one event. The usual case, one line, is not copied. */
function dataOf(raw: Buffer): Buffer | undefined {
  let first: Buffer | undefined;
  let more: Buffer[] | undefined;
  for (let start = 0; start < raw.length; ) {
    const lf = raw.indexOf(LF, start);
    const end = lf > start && raw[lf - 1] === CR ? lf - 1 : lf;
    if (isData(raw, start, end)) {
      const from = start + (raw[start + 5] === 32 ? 6 : 5);
      const value = raw.subarray(Math.min(from, end), end);
      if (first === undefined) first = value;
      else (more ??= [first]).push(NEWLINE, value);
    }
    start = lf + 1;
  }
  return more === undefined ? first : Buffer.concat(more);
}

const NEWLINE = Buffer.from("\n");

/** `data:` stands at `start`. */
function isData(b: Buffer, start: number, end: number): boolean {
  return (
    end - start >= 5 &&
    b[start] === 0x64 &&
    b[start + 1] === 0x61 &&
    b[start + 2] === 0x74 &&
    b[start + 3] === 0x61 &&
    b[start + 4] === 0x3a
  );
}
