import { CgnError } from "../core/errors.ts";

/** Bytes looked at before the event loop gets its turn: a millisecond or two. */
const SLICE_BYTES = 128 * 1024;
/** Numbers are at most so many digits long. */
const MAX_DIGITS = 10;
const MAX_UINT32 = 0xffffffff;

/** What was read of an object: numbers of long lists, the text of all else as it stands there. */
export type LargeMembers = ReadonlyMap<string, Uint32Array | Buffer>;

/**
 * Read a JSON object that has a long list of numbers or a long text in it, in slices with the event loop's turn between them:
 * `JSON.parse` of some megabytes holds all other calls for a tenth of a second and more.
 * @param lists - members that are lists of unsigned 32-bit numbers; where they are something else their text is given
 * @throws CgnError REQUEST_INVALID where it is no JSON object (what stands inside members that are not lists is not looked at)
 */
export async function readLargeObject(body: Buffer, lists: ReadonlySet<string>): Promise<LargeMembers> {
  const members = new Map<string, Uint32Array | Buffer>();
  const reader = new Reader(body);
  reader.expect(OPEN_BRACE);
  if (reader.next() === CLOSE_BRACE) reader.expect(CLOSE_BRACE);
  else {
    do {
      const key = reader.key();
      reader.expect(COLON);
      const isList = lists.has(key) && reader.next() === OPEN_BRACKET;
      members.set(key, isList ? await reader.numbers(key) : reader.text(await reader.value()));
    } while (reader.more(CLOSE_BRACE));
  }
  if (reader.next() !== undefined) throw reader.wrong();
  return members;
}

/** The text of a string member. Undefined: it is none. */
export function textOf(value: Uint32Array | Buffer): string | undefined {
  if (!Buffer.isBuffer(value)) return undefined;
  try {
    const parsed: unknown = JSON.parse(value.toString("utf8"));
    return typeof parsed === "string" ? parsed : undefined;
  } catch {
    return undefined;
  }
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d];

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class Reader {
  at = 0;
  readonly #body: Buffer;
  #turnAt = SLICE_BYTES;

  constructor(body: Buffer) {
    this.#body = body;
  }

  wrong(): CgnError {
    const message = `Cannot read the request: it is no JSON at byte ${this.at}. Send one JSON object`;
    return new CgnError("REQUEST_INVALID", message, {}) as CgnError;
  }

  /** The next byte that is no white space, without taking it. */
  next(): number | undefined {
    while (isSpace(this.#body[this.at])) this.at++;
    return this.#body[this.at];
  }

  expect(byte: number): void {
    if (this.next() !== byte) throw this.wrong();
    this.at++;
  }

  /** Is there another member or item? Takes the comma, or the end. */
  more(end: number): boolean {
    const byte = this.next();
    if (byte !== COMMA && byte !== end) throw this.wrong();
    this.at++;
    return byte === COMMA;
  }

  text([from, to]: readonly [number, number]): Buffer {
    return this.#body.subarray(from, to);
  }

  key(): string {
    if (this.next() !== QUOTE) throw this.wrong();
    const from = this.at;
    this.#skipString();
    const key = textOf(this.text([from, this.at]));
    if (key === undefined) throw this.wrong();
    return key;
  }

  /** Where a value begins and ends; it is skipped. */
  async value(): Promise<readonly [number, number]> {
    const first = this.next();
    const from = this.at;
    if (first === QUOTE) this.#skipString();
    else if (first === OPEN_BRACE || first === OPEN_BRACKET) await this.#skipNested();
    else while (!ENDS.has(this.#body[this.at])) this.at++;
    if (this.at === from) throw this.wrong();
    return [from, this.at];
  }

  /** A list of unsigned 32-bit numbers. */
  async numbers(key: string): Promise<Uint32Array> {
    this.expect(OPEN_BRACKET);
    let list = new Uint32Array(1024);
    let count = 0;
    if (this.next() === CLOSE_BRACKET) this.at++;
    else {
      do {
        const number = this.#number();
        if (number === undefined) throw notNumber(key, count);
        if (count === list.length) {
          const longer = new Uint32Array(2 * count);
          longer.set(list);
          list = longer;
        }
        list[count++] = number;
        if (this.at >= this.#turnAt) await this.#breathe();
      } while (this.more(CLOSE_BRACKET));
    }
    return list.subarray(0, count);
  }

  #number(): number | undefined {
    let byte = this.next() ?? 0;
    const from = this.at;
    let number = 0;
    while (byte >= 0x30 && byte <= 0x39) {
      number = number * 10 + byte - 0x30;
      byte = this.#body[++this.at] ?? 0;
    }
    const digits = this.at - from;
    const isWhole = byte === COMMA || byte === CLOSE_BRACKET || isSpace(byte);
    return digits === 0 || digits > MAX_DIGITS || number > MAX_UINT32 || !isWhole ? undefined : number;
  }

  #skipString(): void {
    for (let end = this.at; ; ) {
      end = this.#body.indexOf(QUOTE, end + 1);
      if (end < 0) throw this.wrong();
      let slashes = 0;
      while (this.#body[end - 1 - slashes] === BACKSLASH) slashes++;
      if (slashes % 2 === 1) continue;
      this.at = end + 1;
      return;
    }
  }

  async #skipNested(): Promise<void> {
    let depth = 0;
    do {
      const byte = this.next();
      if (byte === undefined) throw this.wrong();
      if (byte === QUOTE) this.#skipString();
      else this.at++;
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
      if (this.at >= this.#turnAt) await this.#breathe();
    } while (depth > 0);
  }

  async #breathe(): Promise<void> {
    this.#turnAt = this.at + SLICE_BYTES;
    await turn();
  }
}

/** What ends a number or a word. */
const ENDS: ReadonlySet<number | undefined> = new Set([
  undefined,
  ...[COMMA, COLON, QUOTE, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET],
  ...[0x20, 0x0a, 0x0d, 0x09],
]);

function notNumber(key: string, at: number): CgnError {
  const message = `Cannot read the request: ${key}[${at}] is no whole number from 0 to ${MAX_UINT32}. Send token ids`;
  return new CgnError("REQUEST_INVALID", message, { param: key }) as CgnError;
}
