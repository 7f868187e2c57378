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
  #rest: Buffer | undefined;
  /** Bytes of `#rest` that hold no line end: not searched again. */
  #searched = 0;

  constructor(maxEventBytes = 4 * 1024 * 1024) {
    this.#maxEventBytes = maxEventBytes;
  }

  get overflowed(): boolean {
    return this.#rest !== undefined && this.#rest.length > this.#maxEventBytes;
  }

  /** Take a chunk; calls `onEvent` for each event that it completes. Copies only what crosses a chunk's border. */
  push(chunk: Buffer, onEvent: (event: SseEvent) => void): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    let eventStart = 0;
    let lineStart = 0;
    let at = this.#rest === undefined ? 0 : this.#searched;
    // Line starts within `rest` are found again from the event's start; `searched` only skips bytes without an end.
    if (this.#rest !== undefined) lineStart = bytes.lastIndexOf(LF, at - 1) + 1;
    for (let end = bytes.indexOf(LF, at); end >= 0; end = bytes.indexOf(LF, at)) {
      at = end + 1;
      const blank = end === lineStart || (end === lineStart + 1 && bytes[lineStart] === CR);
      if (blank) {
        const raw = bytes.subarray(eventStart, at);
        onEvent({ raw, data: dataOf(raw) });
        eventStart = at;
      }
      lineStart = at;
    }
    this.#rest = eventStart === bytes.length ? undefined : bytes.subarray(eventStart);
    this.#searched = bytes.length - eventStart;
  }

  /** Bytes of an event that is not complete, and forget them. */
  flush(): Buffer | undefined {
    const rest = this.#rest;
    this.#rest = undefined;
    this.#searched = 0;
    return rest;
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
