import type { BlockName } from "../core/kv-event.ts";
import type { BlockNames } from "./prefix-index.ts";

/** Splits block names into two 32-bit words each, without an allocation a name. */
export class NameWords {
  #names = new BigUint64Array(64);
  /** [2 × n] low and high word of each name loaded. Replaced when more names than ever are loaded. */
  words = new Uint32Array(this.#names.buffer);

  /** Load names [from, to). All machines that Node runs on have the low word first. */
  load(names: BlockNames, from: number, to: number): void {
    if (to - from > this.#names.length) {
      this.#names = new BigUint64Array(2 * (to - from));
      this.words = new Uint32Array(this.#names.buffer);
    }
    for (let i = from; i < to; i++) this.#names[i - from] = names[i]!;
  }

  /** Low and high word of one name. */
  one(name: BlockName): readonly [number, number] {
    return [Number(BigInt.asUintN(32, name)), Number(BigInt.asUintN(32, name >> 32n))];
  }
}
