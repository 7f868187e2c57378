import type { Core } from "./core.ts";

/** Which number a root has in the core. The core forgets roots that are empty, and gives their numbers to others. */
export class RootTable {
  readonly #core: Core;
  readonly #numbers = new Map<string, number>();
  /** By number. */
  readonly #keys: string[] = [];
  #bytes = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Memory in bytes, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The number of a key's root, which may be empty; -1 when there is none. */
  find(key: string): number {
    return this.#numbers.get(key) ?? -1;
  }

  /** The number of a key's root, made when missing; -1 when there is no memory. */
  ensure(key: string): number {
    const known = this.#numbers.get(key) ?? -1;
    if (known >= 0 && this.#core.calls.rootRun(known) !== 0) return known;
    const number = this.#core.calls.newRoot();
    if (number < 0) return -1;
    const before = this.#keys[number];
    if (before !== undefined && this.#numbers.get(before) === number) this.#numbers.delete(before);
    this.#bytes += sizeOf(key) - (before === undefined ? 0 : sizeOf(before));
    this.#keys[number] = key;
    this.#numbers.set(key, number);
    return number;
  }

  key(number: number): string {
    return this.#keys[number] ?? "";
  }
}

/** A map entry, a list entry, and a string of one or two bytes a letter. */
function sizeOf(key: string): number {
  return 100 + 2 * key.length;
}
