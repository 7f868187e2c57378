import type { BlockName } from "./cache-event.ts";

/** Where a block may lie besides the device; the index's own words for tiers. */
export type TierName = "host" | "disk" | "shared";

/** A bounded set of blocks in the order of their last use. */
export class TierStore {
  readonly capacity: number;
  /** Least recently used first. */
  readonly #blocks = new Set<BlockName>();
  /** Stands before the oldest: all that it has passed is gone. A new one each time would walk over what was deleted. */
  #oldest = this.#blocks.values();

  /** @param capacity blocks; 0 keeps nothing */
  constructor(capacity: number) {
    if (!(capacity >= 0)) throw new RangeError(`a tier needs a capacity of at least 0 blocks, not ${capacity}`);
    this.capacity = capacity;
  }

  get size(): number {
    return this.#blocks.size;
  }

  has(name: BlockName): boolean {
    return this.#blocks.has(name);
  }

  /** Used now: the last to be lost. */
  touch(name: BlockName): void {
    if (this.#blocks.delete(name)) this.#blocks.add(name);
  }

  /** Keep a block. @returns the one that is lost for it */
  put(name: BlockName): BlockName | undefined {
    this.#blocks.delete(name);
    if (this.capacity < 1) return name;
    this.#blocks.add(name);
    if (this.#blocks.size <= this.capacity) return undefined;
    const oldest = this.#oldest.next().value!;
    this.#blocks.delete(oldest);
    return oldest;
  }

  clear(): void {
    this.#blocks.clear();
    this.#oldest = this.#blocks.values();
  }
}
