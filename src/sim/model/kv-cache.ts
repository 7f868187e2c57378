import type { Sequence } from "./sequence.ts";

/** What a cache has of a sequence's start; good until the cache is changed. */
export interface Match {
  /** Tokens that need not be computed: never all of the sequence, since its last token's logits are needed. */
  readonly tokens: number;
  /** Leading blocks that are there, all of them for a sequence that is cached as a whole. */
  readonly blocks: number;
}

/**
 * Device memory of one engine: sequences grow into blocks, full blocks become findable, until they are lost for others.
 * One contract for the ways in which engines do that. What becomes of its blocks is told to `CacheNews`.
 */
export interface KvCache<M extends Match = Match> {
  /** Blocks that can be taken now, those with findable content included. */
  readonly free: number;
  readonly used: number;
  /** Blocks with findable content, in use or not. */
  readonly cached: number;
  /** Blocks that a sequence under way must take to have room for `tokens` tokens in all. */
  needs(sequence: Sequence, tokens: number): number;
  match(sequence: Sequence): M;
  /** Could some of what was found be lost to sequences that grow? */
  losable(match: M): boolean;
  /** Start a sequence on what `match()` found just now, with room for `tokens` tokens in all. False: no room, nothing changed. */
  admit(sequence: Sequence, match: M, tokens: number): boolean;
  /** Make room for `tokens` tokens in all. False: no room, nothing changed. */
  grow(sequence: Sequence, tokens: number): boolean;
  /** Make the blocks filled by the first `tokens` tokens findable. */
  store(sequence: Sequence, tokens: number): void;
  /** Let go of all blocks: those with a name stay findable until they are taken. */
  release(sequence: Sequence): void;
  /** Forget everything. False while sequences run. */
  reset(): boolean;
}
