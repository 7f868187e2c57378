import type { BlockKey } from "../model/request.ts";
import { seededDice } from "./dice.ts";
import type { KeyTable } from "./key-table.ts";

/** A prompt goes on from one of so many prompts before it. */
const RECENT = 1000;

/**
 * An assumption for traces that do not say what prompts share: the first `share` of each prompt's blocks are those of one of the
 * last 1,000 prompts, drawn evenly; a shorter one gives what it has. 0: nothing is shared.
 */
export class SharedPrefixes {
  readonly #share: number;
  readonly #roll: () => number;
  readonly #table: KeyTable;
  readonly #recent: (readonly BlockKey[])[] = [];
  #next = 0;

  constructor(share: number, seed: number, table: KeyTable) {
    this.#share = share;
    this.#roll = seededDice(seed);
    this.#table = table;
  }

  /** Keys for a prompt of so many blocks. */
  blocks(count: number): BlockKey[] {
    if (this.#share === 0) return this.#table.fresh(count);
    const past = this.#recent[Math.floor(this.#roll() * this.#recent.length)] ?? [];
    const shared = past.slice(0, Math.round(count * this.#share));
    const blocks = [...shared, ...this.#table.fresh(count - shared.length)];
    this.#recent[this.#next] = blocks;
    this.#next = (this.#next + 1) % RECENT;
    return blocks;
  }
}
