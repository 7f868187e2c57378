import type { BlockStored, KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { EventShape } from "./event-shape.ts";
import type { PrefixIndex, StoredBlocks, WorkerSlot } from "./prefix-index.ts";

/** What events are applied to: an index, or somebody who passes them on to one. */
export interface EventSink extends Pick<PrefixIndex, "remove" | "clearWorker"> {
  /** As `PrefixIndex.store()`; `tokenIds` ([n × blockTokens]) are what `blocks.bytes` were decoded from. */
  store(slot: WorkerSlot, blocks: StoredBlocks, tokenIds: Uint32Array): boolean;
}

/** Token ids of whole blocks as bytes: `ends[i]` is where block i ends in `bytes`. */
export interface DecodedBlocks {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/**
 * Decode `ids` ([n × blockTokens]) to the bytes they stand for. May reuse its buffers: the answer is read before the next
 * call. Undefined when an id is not in the vocabulary.
 */
export type DecodeBlocks = (ids: Uint32Array, blockTokens: number) => DecodedBlocks | undefined;

/** What became of a batch. */
export interface Applied {
  /** Blocks placed, removed names, and resets, in this batch. */
  stored: number;
  removed: number;
  cleared: number;
  /** Blocks whose parent is not known (the events before were missed). */
  orphaned: number;
  /** Blocks with token ids that the vocabulary does not have: the tokenizer is not this engine's. */
  undecodable: number;
  /** Blocks of KV groups that do not bound the prefix (hybrid models), not counted. */
  otherGroups: number;
  /** Blocks of a size that does not fit the worker's, not counted. */
  otherSizes: number;
  /** Blocks told to lie in another tier by name alone, of which nothing else is told: an index cannot place them there. */
  copied: number;
  /** Tokens a block, as the last store said; undefined when there was none. */
  blockTokens: number | undefined;
}

/**
 * Apply one batch of an engine's events, in order, to what the index knows of one worker.
 *
 * The root comes from the adapter and the extra keys of a chain's first block; blocks below a parent inherit the parent's.
 *
 * @param shape - what is learnt of this worker's events, kept from batch to batch. Default: nothing yet
 */
export function applyEvents(
  index: EventSink,
  slot: WorkerSlot,
  batch: KvEventBatch,
  decode: DecodeBlocks,
  shape: EventShape = new EventShape(),
): Applied {
  const applied: Applied = {
    stored: 0,
    removed: 0,
    cleared: 0,
    orphaned: 0,
    undecodable: 0,
    otherGroups: 0,
    otherSizes: 0,
    copied: 0,
    blockTokens: undefined,
  };
  for (const event of batch.events) {
    if (event.type === "cleared") {
      index.clearWorker(slot);
      applied.cleared++;
    } else if (event.type === "stored") {
      applyStored(index, slot, event, decode, shape, applied);
    } else if (!shape.counts(event.group)) {
      applied.otherGroups += event.names.length;
    } else if (event.type === "removed") {
      index.remove(slot, shape.removed(event.names, event.tier), event.tier);
      applied.removed += event.names.length;
    } else {
      if (!shape.describes(event.tier)) applied.copied += event.names.length;
    }
  }
  return applied;
}

function applyStored(
  index: EventSink,
  slot: WorkerSlot,
  event: BlockStored,
  decode: DecodeBlocks,
  shape: EventShape,
  applied: Applied,
): void {
  const group = shape.take(event);
  if (group === "no") {
    applied.otherGroups += event.names.length;
    return;
  }
  const uniform = shape.uniform(event);
  if (uniform === undefined) {
    applied.otherSizes += event.names.length;
    return;
  }
  // What was placed so far is of another group, or in blocks of another size.
  if (group === "anew" || uniform.anew) index.clearWorker(slot);
  const { names, tokenIds, blockTokens } = uniform;
  applied.blockTokens = blockTokens;
  const decoded = decode(tokenIds, blockTokens);
  if (decoded === undefined) {
    applied.undecodable += names.length;
    return;
  }
  const root = rootKey(event.lora, event.extra);
  const { parent, tier } = event;
  const { bytes, ends } = decoded;
  const placed = index.store(slot, { root, parent, names, bytes, ends, blockTokens, tier }, tokenIds);
  if (placed) applied.stored += names.length;
  else applied.orphaned += names.length;
}
