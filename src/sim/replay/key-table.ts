import type { BlockKey } from "../model/request.ts";

/** Whole numbers below this are kept as they are: sets of them are bits. */
const PLAIN_LIMIT = 2 ** 28;

const isPlain = (name: number | string): name is number =>
  typeof name === "number" && name >= 0 && name < PLAIN_LIMIT && Number.isInteger(name);

/** Makes names of blocks into small whole numbers, close together, and shifts them for each repetition of a trace. */
export class KeyTable {
  /** Undefined: no name was seen yet. A trace's names are all small numbers, or all are counted as they come. */
  #plain: boolean | undefined;
  readonly #named = new Map<number | string, number>();
  #most = -1;
  #shift = 0;

  /** From here on all keys are new: `round` repetitions lie before. */
  startRound(round: number): void {
    this.#shift = round * (this.#most + 1);
  }

  /** @throws TypeError for a name unlike the first ones */
  keys(names: readonly (number | string)[]): BlockKey[] {
    const keys = new Array<BlockKey>(names.length);
    for (let i = 0; i < names.length; i++) keys[i] = this.#keyOf(names[i]!) + this.#shift;
    return keys;
  }

  /** Keys that no other prompt has; for traces without names of blocks. */
  fresh(count: number): BlockKey[] {
    return Array.from({ length: count }, () => ++this.#most);
  }

  #keyOf(name: number | string): number {
    this.#plain ??= isPlain(name);
    if (this.#plain) {
      if (!isPlain(name)) throw new TypeError(`block ${name} is no small whole number, as the first ones were`);
      if (name > this.#most) this.#most = name;
      return name;
    }
    let key = this.#named.get(name);
    if (key === undefined) this.#named.set(name, (key = ++this.#most));
    return key;
  }
}
