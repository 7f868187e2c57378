/** Numbers that follow from a seed. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0 || 1;
  }

  /** 0 to 1. */
  roll(): number {
    // xorshift32
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return this.#state / 2 ** 32;
  }

  below(n: number): number {
    return Math.floor(this.roll() * n);
  }

  chance(share: number): boolean {
    return this.roll() < share;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}
