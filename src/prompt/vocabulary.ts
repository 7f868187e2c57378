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
}

/** The id is in no vocabulary entry. */
const ABSENT = 0xffffffff;

/** One flat table of bytes, with offset and length by id. */
class FlatVocabulary implements Vocabulary {
  readonly size: number;
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #lengths: Uint32Array;
  #out = new Uint8Array(4096);
  #ends = new Uint32Array(64);

  constructor(tokens: readonly (Uint8Array | undefined)[]) {
    this.size = tokens.length;
    this.#starts = new Uint32Array(tokens.length);
    this.#lengths = new Uint32Array(tokens.length);
    this.#bytes = new Uint8Array(tokens.reduce((sum, token) => sum + (token?.length ?? 0), 0));
    let at = 0;
    for (const [id, token] of tokens.entries()) {
      this.#starts[id] = at;
      this.#lengths[id] = token?.length ?? ABSENT;
      if (token === undefined) continue;
      this.#bytes.set(token, at);
      at += token.length;
    }
  }

  token(id: number): Uint8Array | undefined {
    const length = this.#lengths[id];
    if (length === undefined || length === ABSENT) return undefined;
    return this.#bytes.slice(this.#starts[id], this.#starts[id]! + length);
  }

  decode(ids: ArrayLike<number>): Uint8Array | undefined {
    const end = this.#append(ids, 0, ids.length, 0);
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
  #append(ids: ArrayLike<number>, from: number, to: number, at: number): number {
    const starts = this.#starts;
    const lengths = this.#lengths;
    const bytes = this.#bytes;
    for (let i = from; i < to; i++) {
      const id = ids[i]!;
      const length = lengths[id] ?? ABSENT;
      if (length === ABSENT) return -1;
      if (at + length > this.#out.length) this.#grow(at + length);
      const out = this.#out;
      const start = starts[id]!;
      for (let k = 0; k < length; k++) out[at + k] = bytes[start + k]!;
      at += length;
    }
    return at;
  }

  #grow(needed: number): void {
    const out = new Uint8Array(2 * needed);
    out.set(this.#out);
    this.#out = out;
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
