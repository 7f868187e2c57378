import type { BlockNames, BlockStored, Tier } from "../core/kv-event.ts";
import { TIERS, tierRank } from "./tiers.ts";

/** A chain of blocks of the worker's one size. */
export interface UniformBlocks {
  readonly names: BlockNames;
  readonly tokenIds: Uint32Array;
  readonly blockTokens: number;
}

/** An `EventShape` as a plain value. */
export interface SavedShape {
  readonly blockTokens?: number;
  readonly fromDevice: boolean;
  readonly group?: number;
  readonly reach: number;
  /** Group and tokens a block. */
  readonly sizes: readonly (readonly [number, number])[];
  readonly chunks: readonly number[];
}

/** Groups whose block sizes are remembered. */
const MAX_GROUPS = 64;
/** Larger than any engine's: what is rounded to it is none. */
const MAX_ALIGN = 2 ** 22;

/**
 * What one worker's events are like, learnt from them: which KV group bounds what can be reused, and the size of its blocks.
 *
 * **Groups.** A hybrid model caches each kind of layer in a group of its own, and gives all groups' blocks the same names. A
 * prefix can be reused only where all groups have what they need: full attention every block from the start, a sliding
 * window or a state only the last ones. So the group that reaches back bounds the prefix; of several the lowest counts, and so
 * does the lowest where kinds are not told (vLLM before `kv_cache_spec_kind`). A hit is rounded down to a multiple of all
 * groups' block sizes. Source: `HybridKVCacheCoordinator.find_longest_cache_hit`, vLLM 0.32.0.
 *
 * **Sizes.** An index has one block size a worker: that of blocks on the device. Connectors tell larger chunks (LMCache: 256
 * tokens under one hash); those are cut into blocks of that size, with names made of the chunk's name.
 */
export class EventShape {
  #announced: number | undefined;
  #blockTokens: number | undefined;
  #fromDevice = false;
  #group: number | undefined;
  /** 2: the group reaches back, 1: nobody tells, 0: it does not. */
  #reach = 0;
  readonly #sizes = new Map<number, number>();
  #align = 1;
  /** Tiers of which blocks were told with their tokens, a bit each. */
  #described = 0;
  /** Blocks to a chunk, the most seen a tier. */
  readonly #chunks: Uint32Array = new Uint32Array(TIERS.length);

  /** @param announced - block size by the engine's settings; used for what connectors tell before the engine tells its own */
  constructor(announced?: number) {
    this.#announced = announced;
  }

  /** What its engine says of itself, where that came later. */
  announce(blockTokens: number | undefined): void {
    this.#announced = blockTokens;
  }

  /** Another process speaks. */
  reset(): void {
    this.#blockTokens = undefined;
    this.#fromDevice = false;
    this.#group = undefined;
    this.#reach = 0;
    this.#sizes.clear();
    this.#align = 1;
    this.#described = 0;
    this.#chunks.fill(0);
  }

  /** What was learnt, as a plain value for `restore()`. */
  save(): SavedShape {
    return {
      fromDevice: this.#fromDevice,
      reach: this.#reach,
      sizes: [...this.#sizes],
      chunks: [...this.#chunks],
      ...(this.#blockTokens === undefined ? {} : { blockTokens: this.#blockTokens }),
      ...(this.#group === undefined ? {} : { group: this.#group }),
    };
  }

  restore(saved: SavedShape): void {
    this.reset();
    this.#blockTokens = saved.blockTokens;
    this.#fromDevice = saved.fromDevice;
    this.#group = saved.group;
    this.#reach = saved.reach;
    for (const [group, tokens] of saved.sizes) this.#noteSize(group, tokens);
    this.#chunks.set(saved.chunks.slice(0, this.#chunks.length));
  }

  /** What an engine with several groups counts is a multiple of so many tokens. */
  get alignTokens(): number {
    return this.#align;
  }

  /** Were blocks of this tier told with their tokens? Names alone are then of blocks that cannot count anyway. */
  describes(tier: Tier): boolean {
    return (this.#described & (1 << tierRank(tier))) !== 0;
  }

  /** Do names of this group count? Told of a removal or a copy. */
  counts(group: number | undefined): boolean {
    return group === undefined || this.#group === undefined || group === this.#group;
  }

  /** Does a store's group count? `anew`: it is a better bound than the one so far, whose blocks are to be forgotten. */
  take({ group, reachesBack, blockTokens, tier }: BlockStored): "yes" | "no" | "anew" {
    this.#described |= 1 << tierRank(tier);
    if (group === undefined) return "yes";
    if (tier === "device") this.#noteSize(group, blockTokens);
    const reach = reachesBack === undefined ? 1 : reachesBack ? 2 : 0;
    if (group === this.#group) {
      this.#reach = Math.max(this.#reach, reach);
      return "yes";
    }
    const first = this.#group === undefined;
    if (!first && (reach < this.#reach || (reach === this.#reach && group > this.#group!))) return "no";
    this.#group = group;
    this.#reach = reach;
    if (first) return "yes";
    this.#blockTokens = undefined;
    this.#fromDevice = false;
    return "anew";
  }

  /** The event's blocks in the worker's size; undefined when they do not fit it. `anew`: the size so far was another. */
  uniform(event: BlockStored): (UniformBlocks & { readonly anew: boolean }) | undefined {
    const { blockTokens, tier } = event;
    let anew = false;
    if (tier === "device" && !this.#fromDevice) {
      anew = this.#blockTokens !== undefined && this.#blockTokens !== blockTokens;
      this.#blockTokens = blockTokens;
      this.#fromDevice = true;
    }
    const tokens = this.#size(blockTokens);
    if (blockTokens === tokens) return { names: event.names, tokenIds: event.tokenIds, blockTokens, anew };
    // Smaller: an entry inside a block, which engines make for states (`cache_partial_block`, vLLM 0.32.0).
    if (blockTokens < tokens) return undefined;
    return { ...this.#cut(event, tokens), anew };
  }

  /** All names that were given for a removal's names. */
  removed(names: BlockNames, tier: Tier | undefined): BlockNames {
    const chunk = tier === undefined ? Math.max(...this.#chunks) : this.#chunks[tierRank(tier)]!;
    if (chunk <= 1) return names;
    return partNames(names, chunk, true);
  }

  #size(told: number): number {
    if (this.#blockTokens === undefined) {
      const announced = this.#announced;
      this.#blockTokens = announced !== undefined && announced > 0 && told >= announced ? announced : told;
    }
    return this.#blockTokens;
  }

  /** A chunk that is no multiple has its last part left out, and nothing can follow it. */
  #cut({ names, tokenIds, blockTokens, tier }: BlockStored, size: number): UniformBlocks {
    const parts = Math.floor(blockTokens / size);
    const whole = blockTokens % size === 0;
    const rank = tierRank(tier);
    this.#chunks[rank] = Math.max(this.#chunks[rank]!, whole ? parts : parts + 1);
    const chunks = whole ? names : names.slice(0, 1);
    const ids = tokenIds.subarray(0, chunks.length * parts * size);
    return { names: partNames(chunks, parts, whole), tokenIds: ids, blockTokens: size };
  }

  #noteSize(group: number, blockTokens: number): void {
    const known = this.#sizes.get(group);
    if (known !== undefined && known >= blockTokens) return;
    if (known === undefined && this.#sizes.size >= MAX_GROUPS) return;
    this.#sizes.set(group, blockTokens);
    let align = 1;
    for (const size of this.#sizes.values()) align = Math.min(MAX_ALIGN, (align / divisor(align, size)) * size);
    this.#align = align;
  }
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** Names of the parts of chunks. `ownLast`: a chunk's last part bears the chunk's own name, by which others hang below it. */
function partNames(names: BlockNames, parts: number, ownLast: boolean): BigUint64Array {
  const made = new BigUint64Array(names.length * parts);
  const words = new Uint32Array(made.buffer);
  for (let n = 0; n < names.length; n++) {
    const at = n * parts;
    made[at + parts - 1] = names[n]!;
    const low = words[2 * (at + parts - 1)]!;
    const high = words[2 * (at + parts - 1) + 1]!;
    const last = ownLast ? parts - 1 : parts;
    for (let i = 0; i < last; i++) {
      words[2 * (at + i)] = scatter(low ^ Math.imul(i + 1, 0x9e3779b1));
      words[2 * (at + i) + 1] = scatter(high + Math.imul(i + 1, 0x85ebca6b));
    }
  }
  return made;
}

/** Finaliser of MurmurHash3 (public domain, Austin Appleby): each bit changes half of the others. */
function scatter(word: number): number {
  let h = word ^ (word >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
