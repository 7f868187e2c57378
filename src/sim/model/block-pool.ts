import type { BlockName } from "./cache-event.ts";

const NONE = -1;
/** Ends of the two parts of the free queue. Block ids follow. */
const FRONT = 0;
const BACK = 1;
const FIRST_ID = 2;

/**
 * A fixed number of KV blocks with a prefix cache, in the order that vLLM evicts.
 *
 * A block is in use (some sequence holds it) or free; a free one may still have a name, and is then found and re-used
 * until it is taken for something else. Free blocks form one queue, taken from its front:
 *
 *     front  released without a name · never used · named ones, least recently released first, of one sequence the deepest first  back
 *
 * The same name may be held by several blocks (a prompt that is fully cached has its last block computed again); the
 * oldest is found first, and each one's loss is told. Checked against a recorded vLLM 0.32.0 run, hash for hash.
 *
 * Memory grows with the blocks that were ever used, not with the size.
 */
export class BlockPool {
  readonly size: number;
  readonly #onRemoved: (name: BlockName, last: boolean) => void;
  #refs = new Int32Array(256);
  readonly #names: (BlockName | undefined)[] = [undefined, undefined];
  /** Two rings of free blocks: links by block id. */
  #next = new Int32Array(256);
  #prev = new Int32Array(256);
  /** By block: the next one with the same name. */
  #twin = new Int32Array(256).fill(NONE);
  /** The oldest block of a name. */
  readonly #byName = new Map<BlockName, number>();
  /** The next id that was never used. */
  #unused = FIRST_ID;
  #free: number;
  #cached = 0;

  /**
   * @param size blocks that may be used (vLLM's null block is not among them), at least 1
   * @param onRemoved told the name of each block that is evicted, and whether no other has it
   */
  constructor(size: number, onRemoved: (name: BlockName, last: boolean) => void) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`a block pool needs at least one block, not ${size}`);
    this.size = size;
    this.#onRemoved = onRemoved;
    for (const end of [FRONT, BACK]) this.#next[end] = this.#prev[end] = end;
    this.#free = size;
  }

  /** Blocks that can be taken now, cached ones included. */
  get free(): number {
    return this.#free;
  }

  get used(): number {
    return this.size - this.#free;
  }

  /** Blocks that carry a name, in use or not. */
  get cached(): number {
    return this.#cached;
  }

  /** The block that holds this name. */
  find(name: BlockName): number | undefined {
    return this.#byName.get(name);
  }

  isFree(id: number): boolean {
    return this.#refs[id] === 0;
  }

  /**
   * Take `count` blocks from the front of the queue, evicting what they held.
   * @throws RangeError when fewer are free: the caller checks `free` first
   */
  take(count: number): number[] {
    if (count > this.#free) throw new RangeError(`${count} blocks asked, ${this.#free} free`);
    const taken: number[] = [];
    for (let i = 0; i < count; i++) {
      const id = this.#takeOne();
      this.#refs[id] = 1;
      this.#free--;
      taken.push(id);
    }
    return taken;
  }

  /** One more sequence uses this block. */
  touch(id: number): void {
    if (this.#refs[id] === 0) {
      this.#unlink(id);
      this.#free--;
    }
    this.#refs[id] = this.#refs[id]! + 1;
  }

  /** Give a block its name, once it is full. */
  setName(id: number, name: BlockName): void {
    if (this.#names[id] !== undefined) throw new RangeError(`block ${id} has a name already`);
    this.#names[id] = name;
    this.#cached++;
    const oldest = this.#byName.get(name);
    if (oldest === undefined) this.#byName.set(name, id);
    else {
      let last = oldest;
      while (this.#twin[last] !== NONE) last = this.#twin[last]!;
      this.#twin[last] = id;
    }
  }

  /** A sequence lets go of its blocks, given from the root on. */
  release(chain: readonly number[]): void {
    for (let i = chain.length - 1; i >= 0; i--) {
      const id = chain[i]!;
      const refs = this.#refs[id]! - 1;
      if (refs < 0) throw new RangeError(`block ${id} released more often than taken`);
      this.#refs[id] = refs;
      if (refs > 0) continue;
      this.#free++;
      // A block that nobody can find again is the cheapest to lose: it goes to the front.
      if (this.#names[id] === undefined) this.#link(id, FRONT, this.#next[FRONT]!);
      else this.#link(id, this.#prev[BACK]!, BACK);
    }
  }

  /** Forget every name. Refused (false) while any block is in use, as vLLM does. */
  reset(): boolean {
    if (this.used > 0) return false;
    this.#names.fill(undefined);
    this.#twin.fill(NONE);
    this.#byName.clear();
    this.#cached = 0;
    return true;
  }

  #takeOne(): number {
    let id = this.#next[FRONT]!;
    if (id === FRONT) {
      if (this.#unused < FIRST_ID + this.size) return this.#makeOne();
      id = this.#next[BACK]!;
    }
    this.#unlink(id);
    this.#forget(id);
    return id;
  }

  #makeOne(): number {
    const id = this.#unused++;
    if (id >= this.#refs.length) {
      this.#refs = grown(this.#refs, 0);
      this.#next = grown(this.#next, 0);
      this.#prev = grown(this.#prev, 0);
      this.#twin = grown(this.#twin, NONE);
    }
    this.#names.push(undefined);
    return id;
  }

  #forget(id: number): void {
    const name = this.#names[id];
    if (name === undefined) return;
    const twin = this.#twin[id]!;
    let other = this.#byName.get(name)!;
    if (other !== id) {
      while (this.#twin[other] !== id) other = this.#twin[other]!;
      this.#twin[other] = twin;
    } else if (twin === NONE) this.#byName.delete(name);
    else this.#byName.set(name, twin);
    this.#twin[id] = NONE;
    this.#names[id] = undefined;
    this.#cached--;
    this.#onRemoved(name, !this.#byName.has(name));
  }

  #unlink(id: number): void {
    const before = this.#prev[id]!;
    const after = this.#next[id]!;
    this.#next[before] = after;
    this.#prev[after] = before;
  }

  #link(id: number, before: number, after: number): void {
    this.#next[before] = id;
    this.#prev[id] = before;
    this.#next[id] = after;
    this.#prev[after] = id;
  }
}

function grown(array: Int32Array<ArrayBuffer>, fill: number): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length);
  larger.set(array);
  if (fill !== 0) larger.fill(fill, array.length);
  return larger;
}
