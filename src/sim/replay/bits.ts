/** A set of small whole numbers: one bit each, as far as they reach. */
export class BitSet {
  #words = new Uint32Array(1024);

  has(n: number): boolean {
    return ((this.#words[n >>> 5] ?? 0) & (1 << (n & 31))) !== 0;
  }

  add(n: number): void {
    const word = n >>> 5;
    if (word >= this.#words.length) {
      const grown = new Uint32Array(Math.max(word + 1, this.#words.length * 2));
      grown.set(this.#words);
      this.#words = grown;
    }
    this.#words[word] = this.#words[word]! | (1 << (n & 31));
  }
}

/** What a cache without limits, shared by all engines, would have hit: leading blocks of each prompt that were seen before. */
export class Ceiling {
  readonly #seen = new BitSet();
  #hit = 0;
  #blocks = 0;

  count(blocks: readonly number[]): void {
    let known = 0;
    while (known < blocks.length && this.#seen.has(blocks[known]!)) known++;
    for (let i = known; i < blocks.length; i++) this.#seen.add(blocks[i]!);
    this.#hit += known;
    this.#blocks += blocks.length;
  }

  /** Share of all blocks, 0 when there were none. */
  get hitRate(): number {
    return this.#blocks === 0 ? 0 : this.#hit / this.#blocks;
  }
}
