import type { CacheNews } from "./cache-news.ts";
import type { KvCache, Match } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import type { Sequence } from "./sequence.ts";
import { type Content, commonTokens, contentOf } from "./slot-content.ts";

/** Below this share of a slot's content going on, the content is put into the store first, which is then looked through. */
const KEEP_SHARE = 0.5;
/** A stored prompt is taken out only when at least this share of it goes on. */
const LOAD_SHARE = 0.25;
/** `--slot-prompt-similarity`. */
const MIN_SHARE = 0.1;

interface Slot {
  content: Content | undefined;
  /** Who computes in it. */
  sequence: Sequence | undefined;
  /** Order of last use. */
  used: number;
}

/** The slot that a request takes, and what it goes on from: the slot's content, or a prompt of the store. */
export interface SlotMatch extends Match {
  readonly slot: number;
  readonly from: Content | undefined;
  /** The slot's content goes into the store. */
  readonly saves: boolean;
}

/**
 * The cache of llama-server: each slot keeps the last sequence that it computed, and a store in RAM (`--cache-ram`) some that had
 * to leave. A request takes the free slot with most of its prompt, if that is enough, else the one longest unused.
 *
 * Rules of `get_available_slot`, `process_single_task` and `server_prompt_cache` in llama.cpp's tools/server (October 2026), the same
 * as kvcached's belief about one (kvindex/slot-cache.ts) is built on; there are no KV events. With a unified cache idle slots give way when room is needed.
 */
export class SlotStore implements KvCache<SlotMatch> {
  readonly #blockTokens: number;
  readonly #size: number;
  readonly #news: CacheNews;
  readonly #minShare: number;
  readonly #storeTokens: number;
  readonly #emptiesFree: boolean;
  readonly #savesFree: boolean;
  readonly #slots: Slot[];
  /** Oldest first. */
  #store: Content[] = [];
  /** Tokens that those under way have room for, and those whose keys and values are there. */
  readonly #held = new Map<Sequence, { room: number; computed: number; slot: number | undefined }>();
  #uses = 0;

  constructor(limits: EngineLimits, news: CacheNews) {
    this.#blockTokens = limits.blockTokens;
    this.#size = limits.blocks;
    this.#news = news;
    this.#minShare = limits.slots?.minShare ?? MIN_SHARE;
    this.#storeTokens = limits.slots?.storeTokens ?? 0;
    this.#emptiesFree = limits.slots?.emptiesFree ?? false;
    this.#savesFree = limits.slots?.savesFree ?? this.#emptiesFree;
    this.#slots = Array.from({ length: limits.maxSequences }, () => ({
      content: undefined,
      sequence: undefined,
      used: -1,
    }));
  }

  get free(): number {
    return this.#size - this.used;
  }

  get used(): number {
    let blocks = 0;
    for (const { room } of this.#held.values()) blocks += room;
    return blocks;
  }

  get cached(): number {
    return this.#slots.reduce((sum, { content }) => sum + this.#blocksFor(content?.length ?? 0), 0);
  }

  needs(sequence: Sequence, tokens: number): number {
    return Math.max(0, this.#blocksFor(tokens) - (this.#held.get(sequence)?.room ?? 0));
  }

  match(sequence: Sequence): SlotMatch {
    const similar = this.#mostSimilar(sequence);
    const slot = similar?.slot ?? this.#longestUnused();
    if (slot < 0) return { slot, from: undefined, saves: false, tokens: 0, blocks: 0 };
    const own = this.#slots[slot]?.content;
    const stays = similar !== undefined && similar.tokens >= KEEP_SHARE * (own?.length ?? 0);
    const saves = !stays && this.#storeTokens > 0;
    const from = (saves ? this.#bestStored(own, sequence) : undefined) ?? own;
    const common = from === undefined ? 0 : commonTokens(from, sequence, this.#blockTokens);
    const tokens = Math.min(common, sequence.length - 1);
    return { slot, from, saves, tokens, blocks: Math.ceil(common / this.#blockTokens) };
  }

  losable({ tokens }: SlotMatch): boolean {
    return tokens > 0;
  }

  admit(sequence: Sequence, { slot: index, from, saves, tokens }: SlotMatch, room: number): boolean {
    if (index < 0 || this.#blocksFor(room) > this.free) return false;
    const slot = this.#slots[index]!;
    if (saves && slot.content !== undefined) this.#save(slot.content);
    if (from !== undefined && from !== slot.content) this.#store = this.#store.filter((each) => each !== from);
    if (this.#emptiesFree || this.#savesFree) this.#leaveOthers(index);
    this.#trim();
    slot.content = undefined;
    slot.sequence = sequence;
    slot.used = ++this.#uses;
    this.#held.set(sequence, { room: this.#blocksFor(room), computed: tokens, slot: index });
    this.#giveWay();
    return true;
  }

  grow(sequence: Sequence, tokens: number): boolean {
    const fresh = this.needs(sequence, tokens);
    if (fresh > this.free) return false;
    const held = this.#held.get(sequence);
    if (held !== undefined) held.room += fresh;
    else this.#held.set(sequence, { room: fresh, computed: 0, slot: undefined });
    if (fresh > 0) this.#giveWay();
    return true;
  }

  store(sequence: Sequence, tokens: number): void {
    const held = this.#held.get(sequence);
    if (held !== undefined) held.computed = Math.max(held.computed, Math.min(tokens, sequence.length));
  }

  release(sequence: Sequence): void {
    const held = this.#held.get(sequence);
    this.#held.delete(sequence);
    if (held?.slot === undefined) return;
    const slot = this.#slots[held.slot]!;
    slot.sequence = undefined;
    slot.content = held.computed === 0 ? undefined : contentOf(sequence, held.computed);
    slot.used = ++this.#uses;
  }

  reset(): boolean {
    if (this.used > 0) return false;
    for (const slot of this.#slots) slot.content = undefined;
    this.#store = [];
    this.#news.cleared();
    return true;
  }

  /** The free slot with most of the prompt, when that is enough. */
  #mostSimilar(sequence: Sequence): { readonly slot: number; readonly tokens: number } | undefined {
    let best: { readonly slot: number; readonly tokens: number } | undefined;
    for (const [slot, { content, sequence: busy }] of this.#slots.entries()) {
      if (busy !== undefined || content === undefined) continue;
      const tokens = commonTokens(content, sequence, this.#blockTokens);
      if (tokens / sequence.length > this.#minShare && tokens > (best?.tokens ?? 0)) best = { slot, tokens };
    }
    return best;
  }

  /** Among equals the last one; -1 when none is free. */
  #longestUnused(): number {
    let best = -1;
    for (const [i, { sequence, used }] of this.#slots.entries()) {
      if (sequence === undefined && (best < 0 || used <= this.#slots[best]!.used)) best = i;
    }
    return best;
  }

  /** The stored prompt that is more of the new one, and goes on with more of itself, than the slot's content and all before it. */
  #bestStored(own: Content | undefined, sequence: Sequence): Content | undefined {
    const shares = (content: Content) => {
      const tokens = commonTokens(content, sequence, this.#blockTokens);
      return { keep: tokens / Math.max(1, content.length), of: tokens / sequence.length };
    };
    let best = own === undefined ? { keep: 0, of: 0 } : shares(own);
    let found: Content | undefined;
    for (const content of this.#store) {
      const now = shares(content);
      if (now.keep < LOAD_SHARE || now.keep <= best.keep || now.of <= best.of) continue;
      best = now;
      found = content;
    }
    return found;
  }

  /** Those that are its beginning go, and it is not put in when one has all of it, or it fits nowhere. */
  #save(content: Content): void {
    if (content.length > this.#storeTokens) return;
    const reach = this.#store.map((each) => commonTokens(each, content.sequence, this.#blockTokens, content.length));
    if (reach.some((tokens) => tokens >= content.length)) return;
    this.#store = [...this.#store.filter((each, i) => reach[i]! < each.length), content];
  }

  /** What lies in free slots is put into the store, where it may have to leave or be overwritten. */
  #leaveOthers(index: number): void {
    for (const [i, slot] of this.#slots.entries()) {
      if (i === index || slot.sequence !== undefined || slot.content === undefined) continue;
      if (this.#storeTokens > 0) this.#save(slot.content);
      if (this.#emptiesFree) slot.content = undefined;
    }
  }

  /** The oldest go until the rest fits. */
  #trim(): void {
    let sum = this.#store.reduce((total, each) => total + each.length, 0);
    let from = 0;
    while (from < this.#store.length && sum > this.#storeTokens) sum -= this.#store[from++]!.length;
    if (from > 0) this.#store = this.#store.slice(from);
  }

  /** Idle slots lose their content, the longest unused first, until those under way have their room. */
  #giveWay(): void {
    while (this.used + this.cached > this.#size) {
      let oldest: Slot | undefined;
      for (const slot of this.#slots) {
        if (slot.content !== undefined && (oldest === undefined || slot.used < oldest.used)) oldest = slot;
      }
      if (oldest === undefined) return;
      oldest.content = undefined;
    }
  }

  #blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.#blockTokens);
  }
}
