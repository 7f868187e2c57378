import type { BlockKey } from "../model/request.ts";

/** What a router believes each engine's cache to hold. Engines are numbered from 0. */
export interface Knowledge {
  /** Leading blocks of a prompt that each engine is believed to hold. [engines], reused by the next call. */
  match(now: number, blocks: readonly BlockKey[]): Uint32Array;
  /** A prompt was sent there. */
  sent(engine: number, blocks: readonly BlockKey[]): void;
  /** The engine's answer says that it held fewer of these blocks than was believed. */
  correct(engine: number, blocks: readonly BlockKey[], held: number): void;
  /** An engine's cache is gone. */
  clear(engine: number): void;
}

/** What an engine said of its cache at one moment. */
export interface BlockNews {
  /** When a router hears of it. */
  readonly at: number;
  readonly engine: number;
  readonly stored: readonly BlockKey[];
  readonly removed: readonly BlockKey[];
}

const BITS = 32;

/**
 * Knowledge from KV events: for each block, one bit an engine. Exact, as the prefix index is: keys name a block with all before
 * it, so the longest unbroken run from the start is what the index answers. News counts from its time on.
 */
export class EventKnowledge implements Knowledge {
  readonly #engines: number;
  readonly #words: number;
  #held: Uint32Array;
  readonly #depth: Uint32Array;
  /** A queue; `#next` is its head. */
  #news: BlockNews[] = [];
  #next = 0;

  constructor(engines: number) {
    this.#engines = engines;
    this.#words = Math.ceil(engines / BITS);
    this.#held = new Uint32Array(4096 * this.#words);
    this.#depth = new Uint32Array(engines);
  }

  /** Times must not decrease. */
  hear(news: BlockNews): void {
    this.#news.push(news);
  }

  match(now: number, blocks: readonly BlockKey[]): Uint32Array {
    this.#take(now);
    const depth = this.#depth;
    depth.fill(0);
    for (let word = 0; word < this.#words; word++) {
      let alive = 0xffffffff;
      for (let i = 0; i < blocks.length; i++) {
        const still = alive & (this.#held[blocks[i]! * this.#words + word] ?? 0);
        if (still !== alive) this.#settle(word, alive & ~still, i);
        alive = still;
        if (alive === 0) break;
      }
      if (alive !== 0) this.#settle(word, alive, blocks.length);
    }
    return depth;
  }

  sent(): void {}

  correct(engine: number, blocks: readonly BlockKey[], held: number): void {
    for (let i = held; i < blocks.length; i++) this.#set(engine, blocks[i]!, false);
  }

  clear(engine: number): void {
    this.#news = this.#news.slice(this.#next).filter((news) => news.engine !== engine);
    this.#next = 0;
    const mask = ~(1 << (engine % BITS));
    for (let i = Math.floor(engine / BITS); i < this.#held.length; i += this.#words)
      this.#held[i] = this.#held[i]! & mask;
  }

  #settle(word: number, engines: number, depth: number): void {
    for (let bits = engines; bits !== 0; bits &= bits - 1) {
      const engine = word * BITS + 31 - Math.clz32(bits & -bits);
      if (engine < this.#engines) this.#depth[engine] = depth;
    }
  }

  #take(now: number): void {
    while (this.#next < this.#news.length && this.#news[this.#next]!.at <= now) {
      const { engine, stored, removed } = this.#news[this.#next++]!;
      for (const key of removed) this.#set(engine, key, false);
      for (const key of stored) this.#set(engine, key, true);
    }
    if (this.#next < 1024 || this.#next * 2 < this.#news.length) return;
    this.#news = this.#news.slice(this.#next);
    this.#next = 0;
  }

  #set(engine: number, key: BlockKey, held: boolean): void {
    const at = key * this.#words + Math.floor(engine / BITS);
    if (at >= this.#held.length) {
      if (!held) return;
      const grown = new Uint32Array(Math.max(at + this.#words, this.#held.length * 2));
      grown.set(this.#held);
      this.#held = grown;
    }
    const bit = 1 << (engine % BITS);
    this.#held[at] = held ? this.#held[at]! | bit : this.#held[at]! & ~bit;
  }
}

/**
 * Knowledge from what was sent, for engines without KV events: the last prompts of each engine count as held, the least recently
 * sent out first; what an answer denies does not count until it is sent again.
 */
export class HistoryKnowledge implements Knowledge {
  readonly #entries: number;
  readonly #engines: { readonly prompts: (readonly BlockKey[])[]; readonly uses: Map<BlockKey, number> }[];
  readonly #depth: Uint32Array;

  /** @param entries prompts remembered for each engine */
  constructor(engines: number, entries: number) {
    this.#entries = entries;
    this.#engines = Array.from({ length: engines }, () => ({ prompts: [], uses: new Map() }));
    this.#depth = new Uint32Array(engines);
  }

  match(_now: number, blocks: readonly BlockKey[]): Uint32Array {
    for (const [i, { uses }] of this.#engines.entries()) {
      let depth = 0;
      while (depth < blocks.length && uses.has(blocks[depth]!)) depth++;
      this.#depth[i] = depth;
    }
    return this.#depth;
  }

  sent(engine: number, blocks: readonly BlockKey[]): void {
    const { prompts, uses } = this.#engines[engine]!;
    // A prompt that this one goes on from gives its place up.
    const last = blocks.length - 1;
    const past = prompts.findIndex((p) => p.length > 0 && p.length - 1 <= last && p.at(-1) === blocks[p.length - 1]);
    if (past >= 0) this.#forget(engine, past);
    for (const key of blocks) uses.set(key, (uses.get(key) ?? 0) + 1);
    prompts.push(blocks);
    if (prompts.length > this.#entries) this.#forget(engine, 0);
  }

  correct(engine: number, blocks: readonly BlockKey[], held: number): void {
    for (let i = held; i < blocks.length; i++) this.#engines[engine]!.uses.delete(blocks[i]!);
  }

  clear(engine: number): void {
    const { prompts, uses } = this.#engines[engine]!;
    prompts.length = 0;
    uses.clear();
  }

  #forget(engine: number, at: number): void {
    const { prompts, uses } = this.#engines[engine]!;
    const [gone] = prompts.splice(at, 1);
    for (const key of gone ?? []) {
      const left = (uses.get(key) ?? 0) - 1;
      if (left > 0) uses.set(key, left);
      else uses.delete(key);
    }
  }
}

/** For policies that ask nothing. */
export class NoKnowledge implements Knowledge {
  readonly #depth: Uint32Array;
  constructor(engines: number) {
    this.#depth = new Uint32Array(engines);
  }
  match(): Uint32Array {
    return this.#depth;
  }
  sent(): void {}
  correct(): void {}
  clear(): void {}
}
