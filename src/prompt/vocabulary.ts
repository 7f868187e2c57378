/** Bytes of consecutive blocks: `ends[i]` is where block i ends in `bytes`. */
export interface BlockBytes {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** What each token id stands for in a rendered prompt. */
export interface Vocabulary {
  /** One more than the highest id. */
  readonly size: number;
  /**
   * The bytes of a sequence of ids, in a new array; undefined when an id is not in the vocabulary.
   */
  decode(ids: ArrayLike<number>): Uint8Array | undefined;
  /**
   * The bytes of whole blocks of `blockTokens` ids each, undefined when an id is not in the vocabulary. The answer's
   * buffers are the vocabulary's own and hold until the next call: no allocation a call.
   */
  decodeBlocks(ids: Uint32Array, blockTokens: number): BlockBytes | undefined;
  /** The bytes of one token; undefined when there is no such id. */
  token(id: number): Uint8Array | undefined;
  /** How many bytes that are; 0 when there is no such id. */
  tokenLength(id: number): number;
}

/** The id is in no vocabulary entry. */
const ABSENT = 0xffffffff;

/** Tokens of at most so many bytes stand in the table itself: nearly all. */
const SHORT = 8;

/**
 * One table of 16 bytes an id, so that a token costs one look into memory: its length, then its bytes, or (above 8 bytes) where
 * they lie.
 */
class FlatVocabulary implements Vocabulary {
  readonly size: number;
  /** [4 × size] length or `ABSENT`, start of a long token, low and high word of a short one. */
  readonly #table: Uint32Array;
  /** Bytes of the long tokens. */
  readonly #long: Uint8Array;
  #out = new Uint8Array(4096);
  #view = new DataView(this.#out.buffer);
  #ends = new Uint32Array(64);

  constructor(tokens: readonly (Uint8Array | undefined)[]) {
    this.size = tokens.length;
    this.#table = new Uint32Array(4 * tokens.length);
    const isLong = (token: Uint8Array | undefined) => token !== undefined && token.length > SHORT;
    this.#long = new Uint8Array(tokens.reduce((sum, token) => sum + (isLong(token) ? token!.length : 0), 0));
    const word = new DataView(new ArrayBuffer(SHORT));
    let at = 0;
    for (const [id, token] of tokens.entries()) {
      this.#table[4 * id] = token?.length ?? ABSENT;
      if (token === undefined) continue;
      if (isLong(token)) {
        this.#table[4 * id + 1] = at;
        this.#long.set(token, at);
        at += token.length;
        continue;
      }
      new Uint8Array(word.buffer).fill(0).set(token);
      this.#table[4 * id + 2] = word.getUint32(0, true);
      this.#table[4 * id + 3] = word.getUint32(4, true);
    }
  }

  token(id: number): Uint8Array | undefined {
    return this.decode([id]);
  }

  tokenLength(id: number): number {
    const length = this.#table[4 * id] ?? ABSENT;
    return length === ABSENT ? 0 : length;
  }

  decode(ids: ArrayLike<number>): Uint8Array | undefined {
    const whole = Uint32Array.from(ids);
    for (let i = 0; i < whole.length; i++) if (whole[i] !== ids[i]) return undefined;
    const end = this.#append(whole, 0, whole.length, 0);
    return end < 0 ? undefined : this.#out.slice(0, end);
  }

  decodeBlocks(ids: Uint32Array, blockTokens: number): BlockBytes | undefined {
    const blocks = Math.floor(ids.length / blockTokens);
    if (blocks > this.#ends.length) this.#ends = new Uint32Array(blocks * 2);
    let at = 0;
    for (let block = 0; block < blocks; block++) {
      at = this.#append(ids, block * blockTokens, (block + 1) * blockTokens, at);
      if (at < 0) return undefined;
      this.#ends[block] = at;
    }
    return { bytes: this.#out.subarray(0, at), ends: this.#ends.subarray(0, blocks) };
  }

  /** Append ids [from, to) to the buffer at byte `at`; the new end, or -1 for an unknown id. */
  #append(ids: Uint32Array, from: number, to: number, at: number): number {
    const table = this.#table;
    let view = this.#view;
    for (let i = from; i < to; i++) {
      const entry = 4 * ids[i]!;
      const length = table[entry] ?? ABSENT;
      if (length === ABSENT) return -1;
      // A short token writes 8 bytes; what is too much of them is written over by the next.
      if (at + length + SHORT > view.byteLength) {
        this.#grow(at + length + SHORT);
        view = this.#view;
      }
      if (length <= SHORT) {
        view.setUint32(at, table[entry + 2]!, true);
        view.setUint32(at + 4, table[entry + 3]!, true);
      } else {
        const start = table[entry + 1]!;
        this.#out.set(this.#long.subarray(start, start + length), at);
      }
      at += length;
    }
    return at;
  }

  #grow(needed: number): void {
    const out = new Uint8Array(2 * needed);
    out.set(this.#out);
    this.#out = out;
    this.#view = new DataView(out.buffer);
  }
}

/** A vocabulary from each id's bytes; undefined where there is no such id. */
export function vocabularyOf(tokens: readonly (Uint8Array | undefined)[]): Vocabulary {
  return new FlatVocabulary(tokens);
}

/**
 * Byte level, id = byte for 0 to 255, then `specials` from 256 on: the simulator's vocabulary, for which any text is its
 * own tokenisation.
 */
export function byteVocabulary(specials: readonly string[] = []): Vocabulary {
  const encoder = new TextEncoder();
  const tokens = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  return new FlatVocabulary([...tokens, ...specials.map((text) => encoder.encode(text))]);
}
