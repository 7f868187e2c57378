import type { BlockName } from "../core/kv-event.ts";

/** Deepest nesting of a value that is read. */
const MAX_DEPTH = 16;
/** Items of one value that is built as it stands: a list a block, with what the block has. */
const MAX_ITEMS = 2 ** 18;
/** Texts remembered, so that keys that come again cost a comparison. */
const CACHED_TEXTS = 256;
/** Longer and shorter texts are not remembered. */
const MAX_CACHED_LENGTH = 40;
const MIN_CACHED_LENGTH = 3;
const WORDS = MAX_CACHED_LENGTH / 4;

/** The bytes are no MessagePack, or not of the expected shape. Becomes the engine's own error. */
export class MsgpackError extends Error {}

const utf8 = new TextDecoder();
/** [256 × 10] each text's bytes as words; the last word of one overlaps the one before. */
const cachedWords = new Uint32Array(CACHED_TEXTS * WORDS);
const cachedLengths = new Uint8Array(CACHED_TEXTS);
const cachedTexts: string[] = new Array(CACHED_TEXTS).fill("");

/**
 * Reads MessagePack from the front to the end, without building what nobody asks for. Lists of ids and hashes, nearly all of
 * what KV events are made of, are read straight into arrays. No length is believed that the payload cannot hold.
 */
export class MsgpackReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  at = 0;
  #items = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.at >= this.#bytes.length;
  }

  /** Is the next value nil? It is read then. */
  takeNil(): boolean {
    if (this.#bytes[this.at] !== 0xc0) return false;
    this.at++;
    return true;
  }

  /** Elements of the array that comes next; -1 (and nothing is read) when something else comes. */
  array(): number {
    const b = this.#peek();
    if (b >= 0x90 && b <= 0x9f) return this.#fits(1, b & 0x0f);
    if (b === 0xdc) return this.#fits(3, this.#uint(1, 2));
    if (b === 0xdd) return this.#fits(5, this.#uint(1, 4));
    return -1;
  }

  /** Entries of the map that comes next; -1 (and nothing is read) when something else comes. */
  map(): number {
    const b = this.#peek();
    if (b >= 0x80 && b <= 0x8f) return this.#fits(1, b & 0x0f);
    if (b === 0xde) return this.#fits(3, this.#uint(1, 2));
    if (b === 0xdf) return this.#fits(5, this.#uint(1, 4));
    return -1;
  }

  /** The text that comes next; undefined (and the value is passed over) when something else comes. */
  text(): string | undefined {
    const b = this.#peek();
    let length = 0;
    let head = 1;
    if (b >= 0xa0 && b <= 0xbf) length = b & 0x1f;
    else if (b === 0xd9) [head, length] = [2, this.#uint(1, 1)];
    else if (b === 0xda) [head, length] = [3, this.#uint(1, 2)];
    else if (b === 0xdb) [head, length] = [5, this.#uint(1, 4)];
    else {
      this.skip();
      return undefined;
    }
    const start = this.at + head;
    this.#need(head + length);
    this.at = start + length;
    return length <= MAX_CACHED_LENGTH && length >= MIN_CACHED_LENGTH
      ? this.#shortText(start, length)
      : this.#longText(start, length);
  }

  /** A block's name; undefined (and the value is passed over) for what is none. Of bytes the last 8 count, big endian. */
  name(): BlockName | undefined {
    const b = this.#peek();
    const at = this.at;
    if (b === 0xcf || b === 0xd3) {
      this.#need(9);
      this.at += 9;
      return this.#view.getBigUint64(at + 1);
    }
    if (b >= 0xc4 && b <= 0xc6) {
      const head = 1 + (1 << (b - 0xc4));
      const length = this.#uint(1, head - 1);
      this.#need(head + length);
      this.at += head + length;
      return length < 8 ? undefined : this.#view.getBigUint64(this.at - 8);
    }
    const value = this.value();
    return typeof value === "number" && Number.isSafeInteger(value) ? BigInt.asUintN(64, BigInt(value)) : undefined;
  }

  /**
   * Read names into [2n] words, low half first, from the `from`th on up to the `to`th. False: one of them is none, and it and
   * what follows is not read.
   */
  names(words: Uint32Array, from: number, to: number): boolean {
    const view = this.#view;
    for (let i = from; i < to; i++) {
      const at = this.at;
      const b = this.#peek();
      if (b === 0xcf || b === 0xd3) {
        this.#need(9);
        this.at += 9;
        words[2 * i + 1] = view.getUint32(at + 1);
        words[2 * i] = view.getUint32(at + 5);
        continue;
      }
      const name = this.name();
      if (name === undefined) return false;
      words[2 * i + 1] = Number(name >> 32n);
      words[2 * i] = Number(name & 0xffff_ffffn);
    }
    return true;
  }

  /** Read unsigned 32-bit numbers into `ids` from `from` on, up to `to`. False: one of them is none. */
  ids(ids: Uint32Array, from: number, to: number): boolean {
    const bytes = this.#bytes;
    let at = this.at;
    for (let i = from; i < to; i++) {
      const b = bytes[at]!;
      if (b < 0x80) {
        ids[i] = b;
        at += 1;
      } else if (b === 0xcd) {
        ids[i] = (bytes[at + 1]! << 8) | bytes[at + 2]!;
        at += 3;
      } else if (b === 0xce) {
        ids[i] = (bytes[at + 1]! << 24) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 8) | bytes[at + 4]!;
        at += 5;
      } else if (b === 0xcc) {
        ids[i] = bytes[at + 1]!;
        at += 2;
      } else {
        this.at = at;
        const value = this.value();
        const number = typeof value === "bigint" ? Number(value) : value;
        if (typeof number !== "number" || number >>> 0 !== number) return false;
        ids[i] = number;
        at = this.at;
      }
    }
    if (at > bytes.length) throw new MsgpackError("it ends in the middle of a value");
    this.at = at;
    return true;
  }

  /** Any value; integers of 64 bits are bigints, maps are passed over and give {}. */
  value(): unknown {
    this.#items = 0;
    return this.#valueAt(0);
  }

  #valueAt(depth: number): unknown {
    if (depth > MAX_DEPTH) throw new MsgpackError("it is nested too deep");
    const length = this.array();
    if (length >= 0) {
      this.#items += length;
      if (this.#items > MAX_ITEMS) throw new MsgpackError(`a field has more than ${MAX_ITEMS} items`);
      const list: unknown[] = [];
      for (let i = 0; i < length; i++) list.push(this.#valueAt(depth + 1));
      return list;
    }
    const b = this.#peek();
    if ((b >= 0x80 && b <= 0x8f) || b === 0xde || b === 0xdf) {
      this.skip();
      return {};
    }
    if ((b >= 0xa0 && b <= 0xbf) || (b >= 0xd9 && b <= 0xdb)) return this.text();
    return this.#scalar(b);
  }

  /** Pass over one value, however deep. */
  skip(): void {
    this.skipSome(1, Number.POSITIVE_INFINITY);
  }

  /** Pass over values while `left` of them are to be passed over, at most about `most` parts. @returns how many are left */
  skipSome(left: number, most: number): number {
    for (let parts = 0; left > 0 && parts < most; parts++) {
      left--;
      const length = this.array();
      if (length >= 0) {
        left += length;
        continue;
      }
      const entries = this.map();
      if (entries >= 0) left += 2 * entries;
      else this.#skipScalar(this.#peek());
    }
    return left;
  }

  #scalar(b: number): unknown {
    const at = this.at;
    this.#skipScalar(b);
    const view = this.#view;
    if (b < 0x80) return b;
    if (b >= 0xe0) return b - 256;
    switch (b) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return view.getFloat32(at + 1);
      case 0xcb:
        return view.getFloat64(at + 1);
      case 0xcc:
        return view.getUint8(at + 1);
      case 0xcd:
        return view.getUint16(at + 1);
      case 0xce:
        return view.getUint32(at + 1);
      case 0xcf:
        return view.getBigUint64(at + 1);
      case 0xd0:
        return view.getInt8(at + 1);
      case 0xd1:
        return view.getInt16(at + 1);
      case 0xd2:
        return view.getInt32(at + 1);
      case 0xd3:
        return view.getBigInt64(at + 1);
      default:
        // Bytes and extensions: nobody asks for them here.
        return this.#bytes.subarray(at, this.at);
    }
  }

  #skipScalar(b: number): void {
    const size = this.#sizeOf(b);
    this.#need(size);
    this.at += size;
  }

  #sizeOf(b: number): number {
    if (b < 0x80 || b >= 0xe0) return 1;
    if (b >= 0xa0 && b <= 0xbf) return 1 + (b & 0x1f);
    if (b === 0xc0 || b === 0xc2 || b === 0xc3) return 1;
    if (b >= 0xc4 && b <= 0xc6) return 1 + (1 << (b - 0xc4)) + this.#uint(1, 1 << (b - 0xc4));
    if (b >= 0xc7 && b <= 0xc9) return 2 + (1 << (b - 0xc7)) + this.#uint(1, 1 << (b - 0xc7));
    if (b >= 0xd4 && b <= 0xd8) return 2 + (1 << (b - 0xd4));
    if (b >= 0xd9 && b <= 0xdb) return 1 + (1 << (b - 0xd9)) + this.#uint(1, 1 << (b - 0xd9));
    if (b === 0xca || b === 0xce || b === 0xd2) return 5;
    if (b === 0xcb || b === 0xcf || b === 0xd3) return 9;
    if (b === 0xcc || b === 0xd0) return 2;
    if (b === 0xcd || b === 0xd1) return 3;
    throw new MsgpackError(`byte ${this.at} starts no value`);
  }

  /** Texts like keys come again and again: found by a few of their bytes, and compared word by word. */
  #shortText(start: number, length: number): string {
    // The byte before a text belongs to its header, so there are always four bytes.
    const view = this.#view;
    const last = view.getUint32(start + length - 4);
    const key = (Math.imul(last ^ view.getUint32(start - 1) ^ length, 0x9e3779b1) >>> 24) & 0xff;
    const words = cachedWords;
    let at = key * WORDS;
    if (cachedLengths[key] === length && words[at] === last) {
      let i = 0;
      while (i + 4 < length && words[++at] === view.getUint32(start + i)) i += 4;
      if (i + 4 >= length) return cachedTexts[key]!;
    }
    const text = this.#longText(start, length);
    at = key * WORDS;
    words[at] = last;
    for (let i = 0; i + 4 < length; i += 4) words[++at] = view.getUint32(start + i);
    cachedLengths[key] = length;
    cachedTexts[key] = text;
    return text;
  }

  #longText(start: number, length: number): string {
    return utf8.decode(this.#bytes.subarray(start, start + length));
  }

  #peek(): number {
    const b = this.#bytes[this.at];
    if (b === undefined) throw new MsgpackError("it ends in the middle of a value");
    return b;
  }

  /** A header was read; each element needs a byte at least. */
  #fits(head: number, count: number): number {
    this.#need(head + count);
    this.at += head;
    return count;
  }

  #need(bytes: number): void {
    if (this.at + bytes > this.#bytes.length) throw new MsgpackError("it claims more than it holds");
  }

  #uint(offset: number, size: number): number {
    this.#need(offset + size);
    const at = this.at + offset;
    return size === 1 ? this.#view.getUint8(at) : size === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }
}
