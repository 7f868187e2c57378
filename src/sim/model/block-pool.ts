/** Names a KV block: chained, so that equal names mean equal prefixes. Text, for example a digest in hex. */
export type BlockName = string;

const NONE = -1;

/**
 * A fixed number of KV blocks with a prefix cache, in the order that vLLM evicts.
 *
 * A block is in use (some sequence holds it) or free; a free one may still have a name, and is then found and re-used
 * until it is taken for something else. Free blocks form one queue, taken from its front:
 *
 *     front  blocks without a name · named ones, least recently released first, of one sequence the deepest first  back
 *
 * The same name may be held by several blocks (a prompt that is fully cached has its last block computed again); the
 * oldest is found first, and each one's loss is told. Checked against a recorded vLLM 0.32.0 run, hash for hash.
 */
export class BlockPool {
  readonly size: number;
  readonly #onRemoved: (name: BlockName) => void;
  readonly #refs: Int32Array;
  readonly #names: (BlockName | undefined)[];
  /** Free queue: links by block id; the last slot is its head and tail. */
  readonly #next: Int32Array;
  readonly #prev: Int32Array;
  readonly #byName = new Map<BlockName, number[]>();
  #free: number;

  /**
   * @param size blocks that may be used (vLLM's null block is not among them), at least 1
   * @param onRemoved told the name of each block that is evicted
   */
  constructor(size: number, onRemoved: (name: BlockName) => void) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`a block pool needs at least one block, not ${size}`);
    this.size = size;
    this.#onRemoved = onRemoved;
    this.#refs = new Int32Array(size);
    this.#names = new Array<BlockName | undefined>(size).fill(undefined);
    this.#next = new Int32Array(size + 1);
    this.#prev = new Int32Array(size + 1);
    for (let i = 0; i <= size; i++) {
      this.#next[i] = i === size ? 0 : i + 1;
      this.#prev[i] = i === 0 ? size : i - 1;
    }
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
    let count = 0;
    for (const ids of this.#byName.values()) count += ids.length;
    return count;
  }

  /** The block that holds this name. */
  find(name: BlockName): number | undefined {
    return this.#byName.get(name)?.[0];
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
      const id = this.#next[this.size]!;
      this.#unlink(id);
      this.#forget(id);
      this.#refs[id] = 1;
      taken.push(id);
    }
    return taken;
  }

  /** One more sequence uses this block. */
  touch(id: number): void {
    if (this.#refs[id] === 0) this.#unlink(id);
    this.#refs[id] = this.#refs[id]! + 1;
  }

  /** Give a block its name, once it is full. */
  setName(id: number, name: BlockName): void {
    if (this.#names[id] !== undefined) throw new RangeError(`block ${id} has a name already`);
    this.#names[id] = name;
    const ids = this.#byName.get(name);
    if (ids === undefined) this.#byName.set(name, [id]);
    else ids.push(id);
  }

  /** A sequence lets go of its blocks, given from the root on. */
  release(chain: readonly number[]): void {
    for (let i = chain.length - 1; i >= 0; i--) {
      const id = chain[i]!;
      const refs = this.#refs[id]! - 1;
      if (refs < 0) throw new RangeError(`block ${id} released more often than taken`);
      this.#refs[id] = refs;
      if (refs > 0) continue;
      // A block that nobody can find again is the cheapest to lose: it goes to the front.
      if (this.#names[id] === undefined) this.#link(id, this.size, this.#next[this.size]!);
      else this.#link(id, this.#prev[this.size]!, this.size);
    }
  }

  /** Forget every name. Refused (false) while any block is in use, as vLLM does. */
  reset(): boolean {
    if (this.used > 0) return false;
    this.#names.fill(undefined);
    this.#byName.clear();
    return true;
  }

  #forget(id: number): void {
    const name = this.#names[id];
    if (name === undefined) return;
    const ids = this.#byName.get(name)!;
    if (ids.length === 1) this.#byName.delete(name);
    else ids.splice(ids.indexOf(id), 1);
    this.#names[id] = undefined;
    this.#onRemoved(name);
  }

  #unlink(id: number): void {
    const before = this.#prev[id]!;
    const after = this.#next[id]!;
    this.#next[before] = after;
    this.#prev[after] = before;
    this.#next[id] = NONE;
    this.#prev[id] = NONE;
    this.#free--;
  }

  #link(id: number, before: number, after: number): void {
    this.#next[before] = id;
    this.#prev[id] = before;
    this.#next[id] = after;
    this.#prev[after] = id;
    this.#free++;
  }
}
