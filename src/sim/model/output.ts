import type { CacheEvent } from "./cache-event.ts";
import type { BlockKey } from "./request.ts";
import type { TierName } from "./tier-store.ts";

/** What a request found in the cache; settled when it is first scheduled. */
export interface CacheUse {
  /** Prompt tokens that need not be computed, whatever tier they came from. */
  readonly cachedTokens: number;
  /** Prompt tokens in blocks that this request stored. */
  readonly createdCacheTokens: number;
  /** Keyed requests: leading blocks that were there, all of them for a prompt that is cached as a whole. */
  readonly foundBlocks?: number;
  /** Engines with tiers: how many of `cachedTokens` came from which (the rest was on the device). */
  readonly byTier?: Readonly<Partial<Record<TierName, number>>>;
  /** Decode side: tokens read from the prefill engine. Not among `cachedTokens`. */
  readonly transferredTokens?: number;
}

/** Where the time to the first token went. The parts add up to `firstAt - submittedAt`. In milliseconds. */
export interface Timing {
  readonly submittedAt: number;
  readonly firstAt: number;
  /** The profile's cost of any request (HTTP, tokenizer). */
  readonly overheadMs: number;
  /** Until it was first scheduled. */
  readonly queueMs: number;
  /** Reading blocks from tiers. */
  readonly fetchMs: number;
  /** Reading blocks from the prefill engine. */
  readonly transferMs: number;
  /** Computing the rest, among others' work, and waiting for a place after reading. */
  readonly prefillMs: number;
}

/** What happens, with its time in milliseconds. Times never decrease. */
export type ModelOutput =
  | { readonly type: "events"; readonly at: number; readonly events: readonly CacheEvent[] }
  | {
      readonly type: "token";
      readonly at: number;
      readonly id: string;
      readonly token: number;
      /** 0 for the first token. */
      readonly index: number;
      readonly use: CacheUse;
    }
  /** A keyed request's first token. */
  | {
      readonly type: "first";
      readonly at: number;
      readonly id: string;
      readonly use: CacheUse;
      readonly timing: Timing;
    }
  | {
      readonly type: "finished";
      readonly at: number;
      readonly id: string;
      readonly reason: "stop" | "length";
      readonly use: CacheUse;
      readonly timing: Timing;
      readonly tokens: number;
    }
  /** Blocks of keyed requests (`reportsBlocks`): what the device's cache has more and less. Removed first, then stored. */
  | {
      readonly type: "blocks";
      readonly at: number;
      readonly removed: readonly BlockKey[];
      readonly stored: readonly BlockKey[];
    }
  /** Decode side: all is read, the prefill's blocks may be released. */
  | { readonly type: "transferred"; readonly at: number; readonly id: string }
  /** Prefill side: nobody read the held blocks in time. */
  | { readonly type: "expired"; readonly at: number; readonly id: string };

/** Totals since the start. */
export interface ModelCounters {
  steps: number;
  queriedTokens: number;
  /** Found on the device. */
  hitTokens: number;
  /** Read from tiers. */
  tierHitTokens: number;
  /** Read from prefill engines. */
  transferredTokens: number;
  promptTokens: number;
  generatedTokens: number;
  preemptions: number;
  /** Milliseconds in which a step ran. */
  busyMs: number;
  /** Prompt tokens that were computed, again after a preemption too. */
  computedTokens: number;
  finished: { stop: number; length: number; abort: number };
}
