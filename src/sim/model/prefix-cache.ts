import { BlockPool } from "./block-pool.ts";
import type { BlockNamer } from "./cache-event.ts";
import type { CacheNews } from "./cache-news.ts";
import type { KvCache, Match } from "./kv-cache.ts";
import { fullBlocks, nameOf, type Sequence } from "./sequence.ts";
import type { TierStack } from "./tier-stack.ts";

export type { BlockNamer, CacheEvent, ExtraKey } from "./cache-event.ts";

/** Of a cache in blocks; `ids` are those that will be used. */
export interface BlockMatch extends Match {
  readonly ids: readonly number[];
}

export interface CacheOptions {
  readonly blocks: number;
  readonly blockTokens: number;
  readonly namer: BlockNamer;
  readonly news: CacheNews;
  readonly tiers: TierStack;
}

/**
 * The prefix cache of vLLM: whole blocks by name, lost in the order of their release.
 *
 * Never all of a prompt is found: at least its last token is computed, in whole blocks (seen on vLLM: a prompt of whole blocks
 * has its last block computed, and stored, again).
 */
export class PrefixCache implements KvCache<BlockMatch> {
  readonly blockTokens: number;
  readonly #pool: BlockPool;
  readonly #namer: BlockNamer;
  readonly #news: CacheNews;
  readonly #tiers: TierStack;

  constructor({ blocks, blockTokens, namer, news, tiers }: CacheOptions) {
    this.blockTokens = blockTokens;
    this.#namer = namer;
    this.#news = news;
    this.#tiers = tiers;
    this.#pool = new BlockPool(blocks, (name, last) => {
      news.removed(name, last);
      if (last) tiers.evicted(name);
    });
  }

  get free(): number {
    return this.#pool.free;
  }

  get used(): number {
    return this.#pool.used;
  }

  get cached(): number {
    return this.#pool.cached;
  }

  needs(sequence: Sequence, tokens: number): number {
    return Math.max(0, this.#blocksFor(tokens) - sequence.blocks.length);
  }

  match(sequence: Sequence): BlockMatch {
    const { blockTokens } = this;
    const ids: number[] = [];
    const all = fullBlocks(sequence, sequence.length, blockTokens);
    const most = Math.min(all, Math.floor((sequence.length - 1) / blockTokens));
    let blocks = 0;
    for (; blocks < all; blocks++) {
      const id = this.#pool.find(nameOf(sequence, blocks, blockTokens, this.#namer));
      if (id === undefined) break;
      if (blocks < most) ids.push(id);
    }
    return { ids, blocks, tokens: ids.length * blockTokens };
  }

  losable({ ids }: BlockMatch): boolean {
    return ids.some((id) => this.#pool.isFree(id));
  }

  admit(sequence: Sequence, { ids }: BlockMatch, tokens: number): boolean {
    const fresh = this.#blocksFor(tokens) - ids.length;
    let queued = 0;
    for (const id of ids) if (this.#pool.isFree(id)) queued++;
    if (fresh + queued > this.#pool.free) return false;
    for (const id of ids) {
      this.#pool.touch(id);
      sequence.blocks.push(id);
    }
    for (const id of this.#pool.take(fresh)) sequence.blocks.push(id);
    sequence.named = ids.length;
    return true;
  }

  grow(sequence: Sequence, tokens: number): boolean {
    const fresh = this.needs(sequence, tokens);
    if (fresh === 0) return true;
    if (fresh > this.#pool.free) return false;
    for (const id of this.#pool.take(fresh)) sequence.blocks.push(id);
    return true;
  }

  /** One event for the whole chain of new blocks. */
  store(sequence: Sequence, tokens: number): void {
    const first = sequence.named;
    const end = fullBlocks(sequence, tokens, this.blockTokens);
    if (end <= first) return;
    for (let i = first; i < end; i++) {
      const name = nameOf(sequence, i, this.blockTokens, this.#namer);
      this.#pool.setName(sequence.blocks[i]!, name);
      this.#tiers.stored(name);
    }
    sequence.named = end;
    this.#news.stored(sequence, first, end, this.blockTokens);
  }

  release(sequence: Sequence): void {
    this.#pool.release(sequence.blocks);
    sequence.blocks.length = 0;
    sequence.named = 0;
  }

  reset(): boolean {
    if (!this.#pool.reset()) return false;
    this.#news.cleared();
    return true;
  }

  #blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockTokens);
  }
}
