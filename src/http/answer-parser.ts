/** Names in lower case; a name that comes twice has a list. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** What of an answer was read, in order: heads, then pieces of the body, then its end. */
export interface AnswerEvents {
  /** The final head; informational ones (1xx) are skipped. */
  onHead(status: number, headers: AnswerHeaders): void;
  /** A copy: it may be kept. */
  onBody(bytes: Buffer): void;
  /** @param reusable the connection may carry another request */
  onAnswerEnd(reusable: boolean): void;
}

const LF = 10;
const CR = 13;
const HEAD_END = Buffer.from("\r\n\r\n");
/** Of a head or of trailers. */
const MAX_HEAD_BYTES = 64 * 1024;
const MAX_EXTENSION_BYTES = 4 * 1024;
/** Below 2 ** 53. */
const MAX_SIZE_DIGITS = 13;

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: |$)/;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** What no head may hold: control characters, and line ends that only some readers take for such. */
const NOT_IN_HEAD = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/;

const SIZE = 0;
const EXTENSION = 1;
const SIZE_LF = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const TRAILER = 6;
type ChunkState =
  | typeof SIZE
  | typeof EXTENSION
  | typeof SIZE_LF
  | typeof DATA
  | typeof DATA_CR
  | typeof DATA_LF
  | typeof TRAILER;

/** Bytes that are no answer in HTTP/1.1. */
export class NotHttp extends Error {}

/**
 * Reads HTTP/1.1 answers (RFC 9112) off the bytes of one connection, one after the other, as strictly as engines keep to it: what two
 * readers could take for two different things is refused. Bytes are copied once, pieces of one read together.
 */
export class AnswerParser {
  readonly #events: AnswerEvents;
  #where: "idle" | "head" | "length" | "chunks" | "close" | "stopped" = "idle";
  /** A head that is not complete. */
  #held: Buffer | undefined;
  #bodiless = false;
  #keepAlive = false;
  /** Bytes of the body, or of the chunk, that are still to come. */
  #left = 0;
  #chunk: ChunkState = SIZE;
  #digits = 0;
  /** Bytes of an extension, or of all trailers; of the trailers' last line. */
  #seen = 0;
  #line = 0;

  constructor(events: AnswerEvents) {
    this.#events = events;
  }

  /** A request was sent: its answer comes next. @param bodiless whatever its head says (HEAD) */
  expect(bodiless: boolean): void {
    this.#where = "head";
    this.#bodiless = bodiless;
  }

  /** Nothing is told any more, whatever comes. */
  stop(): void {
    this.#where = "stopped";
    this.#held = undefined;
  }

  /**
   * Take bytes, which are not kept.
   * @throws NotHttp; and what `events` throw
   */
  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && this.#where !== "stopped") {
      if (this.#where === "idle") throw new NotHttp("it sent more than its answer");
      at = this.#where === "head" ? this.#head(bytes, at) : this.#body(bytes, at);
    }
  }

  /** The connection ended. @returns true when that was the answer's end */
  endOfInput(): boolean {
    if (this.#where !== "close") return false;
    this.#end(false);
    return true;
  }

  #head(bytes: Buffer, from: number): number {
    const before = this.#held?.length ?? 0;
    const all = this.#held === undefined ? bytes.subarray(from) : Buffer.concat([this.#held, bytes.subarray(from)]);
    const end = all.indexOf(HEAD_END, Math.max(0, before - 3));
    if (end > MAX_HEAD_BYTES || (end < 0 && all.length > MAX_HEAD_BYTES)) throw new NotHttp("its head is too large");
    if (end < 0) {
      if (before === 0 && !mayBegin(all)) throw new NotHttp("it does not answer in HTTP/1.1");
      this.#held = before === 0 ? Buffer.from(all) : all;
      return bytes.length;
    }
    this.#held = undefined;
    this.#readHead(all.toString("latin1", 0, end));
    return from + end + HEAD_END.length - before;
  }

  #readHead(text: string): void {
    if (NOT_IN_HEAD.test(text)) throw new NotHttp("its head has characters that none may have");
    let lineEnd = text.indexOf("\r\n");
    const [, minor, code] = STATUS_LINE.exec(lineEnd < 0 ? text : text.slice(0, lineEnd)) ?? [];
    if (code === undefined) throw new NotHttp("it does not answer in HTTP/1.1");
    const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
    while (lineEnd >= 0) {
      const start = lineEnd + 2;
      lineEnd = text.indexOf("\r\n", start);
      addHeader(headers, lineEnd < 0 ? text.slice(start) : text.slice(start, lineEnd));
    }
    const status = Number(code);
    if (status === 101) throw new NotHttp("it wants another protocol");
    if (status < 200) return;
    this.#keepAlive = staysOpen(headers["connection"], minor === "1");
    const bodiless = this.#bodiless || status === 204 || status === 304;
    const next = bodiless ? "idle" : this.#framing(headers);
    this.#where = next;
    this.#events.onHead(status, headers);
    // The reader may have stopped the answer by now.
    if (this.#where !== next) return;
    if (bodiless || (next === "length" && this.#left === 0)) this.#end(this.#keepAlive);
  }

  #framing(headers: Readonly<Record<string, string | string[]>>): "length" | "chunks" | "close" {
    const coding = headers["transfer-encoding"];
    const length = headers["content-length"];
    if (coding !== undefined) {
      if (length !== undefined) throw new NotHttp("its length is told in two ways");
      if (typeof coding !== "string" || coding.toLowerCase() !== "chunked")
        throw new NotHttp(`its transfer coding is not known (${String(coding).slice(0, 40)})`);
      this.#chunk = SIZE;
      this.#left = this.#digits = 0;
      return "chunks";
    }
    if (length === undefined) return "close";
    if (typeof length !== "string" || !/^\d{1,15}$/.test(length)) throw new NotHttp("its content-length is no length");
    this.#left = Number(length);
    return "length";
  }

  #body(bytes: Buffer, from: number): number {
    if (this.#where === "chunks") return this.#chunks(bytes, from);
    const take = this.#where === "close" ? bytes.length - from : Math.min(this.#left, bytes.length - from);
    this.#left -= take;
    this.#events.onBody(copyOf(bytes, from, from + take));
    if (this.#where === "length" && this.#left === 0) this.#end(this.#keepAlive);
    return from + take;
  }

  /** All whole and begun chunks of one read, given on as one piece. */
  #chunks(bytes: Buffer, from: number): number {
    const out = Buffer.allocUnsafe(bytes.length - from);
    let size = 0;
    let at = from;
    let ended = false;
    let wrong: NotHttp | undefined;
    while (at < bytes.length && !ended) {
      if (this.#chunk === DATA) {
        const take = Math.min(this.#left, bytes.length - at);
        size += bytes.copy(out, size, at, at + take);
        at += take;
        this.#left -= take;
        if (this.#left === 0) this.#chunk = DATA_CR;
        continue;
      }
      const step = this.#between(bytes[at++]!);
      if (step === "end") ended = true;
      else if (step !== undefined) {
        wrong = step;
        break;
      }
    }
    if (size > 0) this.#events.onBody(size === out.length ? out : out.subarray(0, size));
    if (wrong !== undefined) throw wrong;
    if (ended && this.#where === "chunks") this.#end(this.#keepAlive);
    return at;
  }

  /** One byte between the data of chunks. */
  #between(byte: number): NotHttp | "end" | undefined {
    switch (this.#chunk) {
      case SIZE:
        return this.#sizeByte(byte);
      case EXTENSION:
        if (byte === CR) this.#chunk = SIZE_LF;
        else if (byte === LF || ++this.#seen > MAX_EXTENSION_BYTES) return new NotHttp("a chunk's head is too long");
        return undefined;
      case SIZE_LF:
        if (byte !== LF) return new NotHttp("a chunk's head does not end");
        this.#chunk = this.#left === 0 ? TRAILER : DATA;
        this.#digits = this.#seen = this.#line = 0;
        return undefined;
      case DATA_CR:
        if (byte !== CR) return new NotHttp("a chunk does not end where it should");
        this.#chunk = DATA_LF;
        return undefined;
      case DATA_LF:
        if (byte !== LF) return new NotHttp("a chunk does not end where it should");
        this.#chunk = SIZE;
        return undefined;
      default:
        return this.#trailerByte(byte);
    }
  }

  #sizeByte(byte: number): NotHttp | undefined {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      this.#left = this.#left * 16 + digit;
      return ++this.#digits > MAX_SIZE_DIGITS ? new NotHttp("a chunk is too large") : undefined;
    }
    if (this.#digits === 0) return new NotHttp("a chunk has no size");
    if (byte === CR) this.#chunk = SIZE_LF;
    else if (byte === 0x3b || byte === 0x20 || byte === 0x09) this.#chunk = EXTENSION;
    else return new NotHttp("a chunk's size is no number");
    return undefined;
  }

  #trailerByte(byte: number): NotHttp | "end" | undefined {
    if (++this.#seen > MAX_HEAD_BYTES) return new NotHttp("its trailers are too large");
    if (byte === LF) {
      if (this.#line === 0) return "end";
      this.#line = 0;
    } else if (byte !== CR) this.#line++;
    return undefined;
  }

  #end(reusable: boolean): void {
    this.#where = "idle";
    this.#events.onAnswerEnd(reusable);
  }
}

/** Could these be the first bytes of an answer? */
function mayBegin(bytes: Buffer): boolean {
  const begun = "HTTP/1.".slice(0, bytes.length);
  return bytes.toString("latin1", 0, begun.length) === begun;
}

function addHeader(headers: Record<string, string | string[]>, line: string): void {
  const colon = line.indexOf(":");
  const name = nameOf(line.slice(0, Math.max(0, colon)));
  const value = line.slice(colon + 1).trim();
  const before = headers[name];
  if (before === undefined) headers[name] = value;
  else if (typeof before === "string") headers[name] = [before, value];
  else before.push(value);
}

/** As names are written to how they are kept. Engines send a few dozen. */
const NAMES = new Map<string, string>();
const MAX_NAMES = 256;

/** @throws NotHttp */
function nameOf(written: string): string {
  const known = NAMES.get(written);
  if (known !== undefined) return known;
  if (!NAME.test(written)) throw new NotHttp("its head has a line that is no header");
  const name = written.toLowerCase();
  if (NAMES.size < MAX_NAMES) NAMES.set(written, name);
  return name;
}

function staysOpen(connection: string | string[] | undefined, byDefault: boolean): boolean {
  if (connection === undefined) return byDefault;
  const said = String(connection).toLowerCase();
  return byDefault ? !said.includes("close") : said.includes("keep-alive");
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const out = Buffer.allocUnsafe(to - from);
  bytes.copy(out, 0, from, to);
  return out;
}
