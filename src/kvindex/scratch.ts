import type { BlockHash } from "./block-hash.ts";
import { type Heap, UNIT_BYTES } from "./heap.ts";

/** A range of the heap that is written over and over. A unit on each side keeps its content from looking like heap marks. */
class Area {
  /** First unit of the content; 0 while there is none. */
  at = 0;
  #units = 0;
  readonly #heap: Heap;

  constructor(heap: Heap) {
    this.#heap = heap;
  }

  /** Make room for so many bytes; the content may be lost. False when there is no memory. */
  ensure(bytes: number): boolean {
    const units = Math.ceil(bytes / UNIT_BYTES);
    if (units <= this.#units) return true;
    const larger = Math.max(64, 2 ** Math.ceil(Math.log2(units)));
    this.#drop();
    const range = this.#heap.alloc(larger + 2);
    if (range === 0) return false;
    const w = this.#heap.words;
    w.fill(0, 4 * range, 4 * (range + 1));
    w.fill(0, 4 * (range + larger + 1), 4 * (range + larger + 2));
    this.at = range + 1;
    this.#units = larger;
    return true;
  }

  #drop(): void {
    if (this.#units === 0) return;
    this.#heap.words.fill(0, 4 * this.at, 4 * (this.at + this.#units));
    this.#heap.free(this.at - 1, this.#units + 2);
    this.at = 0;
    this.#units = 0;
  }
}

/** Where bytes are put to be hashed, and what comes out: blocks to store, or a prompt to match. */
export class Scratch {
  readonly #bytes: Area;
  readonly #records: Area;
  readonly #ends: Area;
  readonly #heap: Heap;
  readonly #hash: BlockHash;

  constructor(heap: Heap, hash: BlockHash) {
    this.#heap = heap;
    this.#hash = hash;
    this.#bytes = new Area(heap);
    this.#records = new Area(heap);
    this.#ends = new Area(heap);
  }

  /** Byte address of the bytes. */
  get bytesAt(): number {
    return this.#bytes.at * UNIT_BYTES;
  }

  /** Place of the first block record. */
  get records(): number {
    return this.#records.at;
  }

  /** Byte address of the ends, [n] u32. */
  get endsAt(): number {
    return this.#ends.at * UNIT_BYTES;
  }

  /** Hash n blocks to records. False when there is no memory. */
  loadBlocks(bytes: Uint8Array, ends: Uint32Array, n: number): boolean {
    if (!this.#bytes.ensure(bytes.length) || !this.#ends.ensure(4 * n) || !this.#records.ensure(UNIT_BYTES * n))
      return false;
    this.#heap.bytes.set(bytes, this.bytesAt);
    this.#heap.words.set(n === ends.length ? ends : ends.subarray(0, n), this.endsAt / 4);
    this.#hash.hashBlocks(this.bytesAt, this.endsAt, n, this.records * UNIT_BYTES);
    return true;
  }

  /** Put a prompt's bytes where they can be matched, with room for one record. False when there is no memory. */
  loadPrompt(prompt: Uint8Array): boolean {
    if (!this.#bytes.ensure(prompt.length) || !this.#records.ensure(UNIT_BYTES)) return false;
    this.#heap.bytes.set(prompt, this.bytesAt);
    return true;
  }

  /** Room for the ends of n blocks. */
  ensureEnds(n: number): boolean {
    return this.#ends.ensure(4 * n);
  }
}
