import { type BlockName, BlockPool } from "./block-pool.ts";

/** What makes equal tokens different for the cache. */
export interface ExtraKey {
  readonly kind: "lora" | "cache_salt";
  readonly value: string;
}

/** Names a full block from its parent's name (undefined at the root), its token ids and its extra keys. */
export type BlockNamer = (
  parent: BlockName | undefined,
  tokenIds: readonly number[],
  extra: readonly ExtraKey[],
) => BlockName;

/** What an engine tells of its cache. `stored` carries a chain of blocks; `extra` has one list a block. */
export type CacheEvent =
  | {
      readonly type: "stored";
      readonly names: readonly BlockName[];
      readonly parent: BlockName | undefined;
      /** [names.length × blockTokens] */
      readonly tokenIds: readonly number[];
      readonly extra: readonly (readonly ExtraKey[])[];
    }
  | { readonly type: "removed"; readonly name: BlockName }
  | { readonly type: "cleared" };

/** One request's tokens and the blocks that hold their keys and values. */
export interface Sequence {
  readonly lora: string;
  readonly salt: string;
  /** Prompt, then what was generated. */
  readonly tokens: number[];
  /** Block ids from the root on. */
  readonly blocks: number[];
  /** Names of its full blocks, as far as they were computed. */
  readonly names: BlockName[];
  /** How many of `blocks` carry their name in the pool. */
  named: number;
}

export function newSequence(prompt: readonly number[], lora: string, salt: string): Sequence {
  return { lora, salt, tokens: [...prompt], blocks: [], names: [], named: 0 };
}

/**
 * The prefix cache of one engine: sequences grow into blocks, full blocks become findable, events say so.
 *
 * Never all of a prompt is found: at least its last token is computed, in whole blocks, since the engine needs that
 * token's logits (seen on vLLM: a prompt of whole blocks has its last block computed, and stored, again).
 */
export class PrefixCache {
  readonly blockTokens: number;
  readonly pool: BlockPool;
  readonly #namer: BlockNamer;
  readonly #enabled: boolean;
  #events: CacheEvent[] = [];

  constructor(options: {
    readonly blocks: number;
    readonly blockTokens: number;
    readonly namer: BlockNamer;
    readonly enabled?: boolean;
  }) {
    this.blockTokens = options.blockTokens;
    this.#namer = options.namer;
    this.#enabled = options.enabled ?? true;
    this.pool = new BlockPool(options.blocks, (name) => this.#events.push({ type: "removed", name }));
  }

  /** Blocks that `tokens` tokens need. */
  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockTokens);
  }

  /** The leading blocks of this sequence that are cached, in whole blocks and short of its last token. */
  match(sequence: Sequence): number[] {
    if (!this.#enabled) return [];
    const found: number[] = [];
    const most = Math.floor((sequence.tokens.length - 1) / this.blockTokens);
    for (let i = 0; i < most; i++) {
      const id = this.pool.find(this.#nameOf(sequence, i));
      if (id === undefined) break;
      found.push(id);
    }
    return found;
  }

  /** Start a sequence on cached blocks `hits`, with room for `tokens` tokens in all. False: no room, nothing changed. */
  admit(sequence: Sequence, hits: readonly number[], tokens: number): boolean {
    const fresh = this.blocksFor(tokens) - hits.length;
    const hitsInQueue = hits.filter((id) => this.pool.isFree(id)).length;
    if (fresh + hitsInQueue > this.pool.free) return false;
    for (const id of hits) this.pool.touch(id);
    sequence.blocks.push(...hits, ...this.pool.take(fresh));
    sequence.named = hits.length;
    return true;
  }

  /** Make room for `tokens` tokens in all. False: no room, nothing changed. */
  grow(sequence: Sequence, tokens: number): boolean {
    const fresh = this.blocksFor(tokens) - sequence.blocks.length;
    if (fresh <= 0) return true;
    if (fresh > this.pool.free) return false;
    sequence.blocks.push(...this.pool.take(fresh));
    return true;
  }

  /** Make the blocks filled by the first `tokens` tokens findable. One event for the whole chain of new ones. */
  store(sequence: Sequence, tokens: number): void {
    if (!this.#enabled) return;
    const first = sequence.named;
    const end = Math.floor(tokens / this.blockTokens);
    if (end <= first) return;
    for (let i = first; i < end; i++) this.pool.setName(sequence.blocks[i]!, this.#nameOf(sequence, i));
    sequence.named = end;
    this.#events.push({
      type: "stored",
      names: sequence.names.slice(first, end),
      parent: sequence.names[first - 1],
      tokenIds: sequence.tokens.slice(first * this.blockTokens, end * this.blockTokens),
      extra: Array.from({ length: end - first }, (_, i) => extraKeys(sequence, first + i)),
    });
  }

  /** Let go of all blocks: those with a name stay findable until they are taken. */
  release(sequence: Sequence): void {
    this.pool.release(sequence.blocks);
    sequence.blocks.length = 0;
    sequence.named = 0;
  }

  /** Forget everything. False while sequences run. */
  reset(): boolean {
    if (!this.pool.reset()) return false;
    this.#events.push({ type: "cleared" });
    return true;
  }

  /** The events since the last call, in order. */
  takeEvents(): readonly CacheEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #nameOf(sequence: Sequence, index: number): BlockName {
    for (let i = sequence.names.length; i <= index; i++) {
      const ids = sequence.tokens.slice(i * this.blockTokens, (i + 1) * this.blockTokens);
      sequence.names.push(this.#namer(sequence.names[i - 1], ids, extraKeys(sequence, i)));
    }
    return sequence.names[index]!;
  }
}

/** The adapter counts for every block, the salt for the first: the chain carries it on (vLLM's order). */
function extraKeys(sequence: Sequence, index: number): ExtraKey[] {
  const keys: ExtraKey[] = [];
  if (sequence.lora !== "") keys.push({ kind: "lora", value: sequence.lora });
  if (sequence.salt !== "" && index === 0) keys.push({ kind: "cache_salt", value: sequence.salt });
  return keys;
}
