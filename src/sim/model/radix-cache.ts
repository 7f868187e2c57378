import type { BlockName, BlockNamer } from "./cache-event.ts";
import type { CacheNews } from "./cache-news.ts";
import type { KvCache, Match } from "./kv-cache.ts";
import type { CacheOptions } from "./prefix-cache.ts";
import { LeafQueue, newRoot, type RadixNode, splitNode } from "./radix-node.ts";
import { fullBlocks, nameOf, type Sequence } from "./sequence.ts";
import type { TierStack } from "./tier-stack.ts";

/** Of a radix tree: where the path of cached blocks ends. */
export interface RadixMatch extends Match {
  readonly node: RadixNode;
}

/** What a sequence under way holds. */
interface Held {
  /** End of its path in the tree, which is locked. */
  node: RadixNode;
  /** Blocks of that path. */
  shared: number;
  /** Blocks of its own. */
  own: number;
}

/**
 * The prefix cache of SGLang (RadixAttention): a tree of runs of blocks. A run ends where two sequences part, or where one stored it;
 * room is made by losing the least recently used leaf that nobody uses, as a whole. Blocks that another sequence stored meanwhile
 * are shared, not kept twice.
 *
 * Source: sgl-project/sglang, `python/sglang/srt/mem_cache/radix_cache.py` (match_prefix, insert, evict, inc_lock_ref), 2026.
 */
export class RadixCache implements KvCache<RadixMatch> {
  readonly size: number;
  readonly #blockTokens: number;
  readonly #namer: BlockNamer;
  readonly #news: CacheNews;
  readonly #tiers: TierStack;
  #root = newRoot();
  #leaves = new LeafQueue();
  readonly #held = new Map<Sequence, Held>();
  /** Blocks with nothing in them. */
  #empty: number;
  /** Blocks of the tree that are used by nobody. */
  #idle = 0;
  #cached = 0;
  #uses = 0;

  constructor({ blocks, blockTokens, namer, news, tiers }: CacheOptions) {
    if (!Number.isInteger(blocks) || blocks < 1)
      throw new RangeError(`a cache needs at least one block, not ${blocks}`);
    this.size = blocks;
    this.#empty = blocks;
    this.#blockTokens = blockTokens;
    this.#namer = namer;
    this.#news = news;
    this.#tiers = tiers;
  }

  get free(): number {
    return this.#empty + this.#idle;
  }

  get used(): number {
    return this.size - this.free;
  }

  get cached(): number {
    return this.#cached;
  }

  needs(sequence: Sequence, tokens: number): number {
    const held = this.#held.get(sequence);
    return Math.max(0, Math.ceil(tokens / this.#blockTokens) - (held === undefined ? 0 : held.shared + held.own));
  }

  match(sequence: Sequence): RadixMatch {
    const all = fullBlocks(sequence, sequence.length, this.#blockTokens);
    const most = Math.min(all, Math.floor((sequence.length - 1) / this.#blockTokens));
    const { node, depth } = this.#walk(sequence, this.#root, 0, most);
    let blocks = depth;
    if (depth === most) while (blocks < all && this.#continues(node, sequence, depth, blocks)) blocks++;
    return { node, blocks, tokens: depth * this.#blockTokens };
  }

  losable({ node }: RadixMatch): boolean {
    return node.parent !== undefined && node.locks === 0;
  }

  admit(sequence: Sequence, { node, tokens }: RadixMatch, room: number): boolean {
    const shared = tokens / this.#blockTokens;
    const fresh = Math.ceil(room / this.#blockTokens) - shared;
    this.#lock(node);
    if (fresh > this.free) {
      this.#unlock(node);
      return false;
    }
    this.#take(fresh);
    this.#held.set(sequence, { node, shared, own: fresh });
    sequence.named = shared;
    return true;
  }

  grow(sequence: Sequence, tokens: number): boolean {
    const fresh = this.needs(sequence, tokens);
    if (fresh > this.free) return false;
    this.#take(fresh);
    const held = this.#held.get(sequence);
    if (held !== undefined) held.own += fresh;
    else this.#held.set(sequence, { node: this.#root, shared: 0, own: fresh });
    return true;
  }

  store(sequence: Sequence, tokens: number): void {
    const held = this.#held.get(sequence);
    const end = fullBlocks(sequence, tokens, this.#blockTokens);
    if (held === undefined || end <= sequence.named) return;
    const { node, depth } = this.#walk(sequence, held.node, held.shared, end);
    const leaf = depth < end ? this.#addLeaf(node, sequence, depth, end) : node;
    this.#lock(leaf);
    this.#unlock(held.node);
    // What others stored first is used from the tree; the own copies are given back.
    this.#empty += depth - held.shared;
    held.own -= end - held.shared;
    held.node = leaf;
    held.shared = end;
    sequence.named = end;
    if (depth < end) this.#news.stored(sequence, depth, end, this.#blockTokens);
  }

  release(sequence: Sequence): void {
    const held = this.#held.get(sequence);
    if (held === undefined) return;
    this.#held.delete(sequence);
    this.#empty += held.own;
    this.#unlock(held.node);
    sequence.named = 0;
  }

  reset(): boolean {
    if (this.used > 0) return false;
    this.#root = newRoot();
    this.#leaves = new LeafQueue();
    this.#empty = this.size;
    this.#idle = 0;
    this.#cached = 0;
    this.#news.cleared();
    return true;
  }

  /** Follow a sequence's blocks down from a node at depth `from`, at most to depth `most`; a run that it leaves is split there. */
  #walk(sequence: Sequence, start: RadixNode, from: number, most: number): { node: RadixNode; depth: number } {
    let node = start;
    let depth = from;
    this.#touch(node);
    while (depth < most) {
      const child = node.children.get(this.#name(sequence, depth));
      if (child === undefined) break;
      const wanted = Math.min(child.names.length, most - depth);
      let same = 1;
      while (same < wanted && child.names[same] === this.#name(sequence, depth + same)) same++;
      node = same < child.names.length ? splitNode(child, same) : child;
      depth += same;
      this.#touch(node);
      if (same < wanted) break;
    }
    return { node, depth };
  }

  /** Is the block at `index` there, below a path that ends with `node` at `depth`? Changes nothing. */
  #continues(node: RadixNode, sequence: Sequence, depth: number, index: number): boolean {
    const child = node.children.get(this.#name(sequence, depth));
    return child?.names[index - depth] === this.#name(sequence, index);
  }

  #addLeaf(parent: RadixNode, sequence: Sequence, from: number, end: number): RadixNode {
    const names: BlockName[] = [];
    for (let i = from; i < end; i++) {
      const name = this.#name(sequence, i);
      names.push(name);
      this.#tiers.stored(name);
    }
    const leaf: RadixNode = { parent, names, children: new Map(), locks: 0, lastUse: ++this.#uses };
    parent.children.set(names[0]!, leaf);
    this.#cached += names.length;
    // The caller locks it next; until then it counts as nobody's.
    this.#idle += names.length;
    return leaf;
  }

  /** Make `count` blocks empty and take them. The caller has checked `free`. */
  #take(count: number): void {
    while (this.#empty < count) this.#evict(this.#leaves.take());
    this.#empty -= count;
  }

  #evict(leaf: RadixNode): void {
    const parent = leaf.parent!;
    leaf.parent = undefined;
    parent.children.delete(leaf.names[0]!);
    for (const name of leaf.names) {
      this.#news.removed(name, true);
      this.#tiers.evicted(name);
    }
    this.#empty += leaf.names.length;
    this.#idle -= leaf.names.length;
    this.#cached -= leaf.names.length;
    this.#leaves.offer(parent);
  }

  #touch(node: RadixNode): void {
    node.lastUse = ++this.#uses;
    this.#leaves.offer(node);
  }

  #lock(end: RadixNode): void {
    for (let node = end; node.parent !== undefined; node = node.parent) {
      if (node.locks++ === 0) this.#idle -= node.names.length;
    }
  }

  #unlock(end: RadixNode): void {
    for (let node = end; node.parent !== undefined; node = node.parent) {
      if (--node.locks > 0) continue;
      this.#idle += node.names.length;
      this.#leaves.offer(node);
    }
  }

  #name(sequence: Sequence, index: number): BlockName {
    return nameOf(sequence, index, this.#blockTokens, this.#namer);
  }
}
