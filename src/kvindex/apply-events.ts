import type { BlockStored, KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
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
  /** Blocks of KV groups other than the first (hybrid models), not counted. */
  otherGroups: number;
  /** Tokens a block, as the last store said; undefined when there was none. */
  blockTokens: number | undefined;
}

/**
 * Apply one batch of an engine's events, in order, to what the index knows of one worker.
 *
 * Only KV group 0 counts: in a hybrid model it is the full-attention group, whose blocks bound what can be reused. The root
 * comes from the adapter and the extra keys of a chain's first block; blocks below a parent inherit the parent's.
 */
export function applyEvents(index: EventSink, slot: WorkerSlot, batch: KvEventBatch, decode: DecodeBlocks): Applied {
  const applied: Applied = {
    stored: 0,
    removed: 0,
    cleared: 0,
    orphaned: 0,
    undecodable: 0,
    otherGroups: 0,
    blockTokens: undefined,
  };
  for (const event of batch.events) {
    if (event.type === "cleared") {
      index.clearWorker(slot);
      applied.cleared++;
    } else if (event.group !== 0) {
      applied.otherGroups += event.names.length;
    } else if (event.type === "removed") {
      index.remove(slot, event.names, event.tier);
      applied.removed += event.names.length;
    } else {
      applyStored(index, slot, event, decode, applied);
    }
  }
  return applied;
}

function applyStored(
  index: EventSink,
  slot: WorkerSlot,
  event: BlockStored,
  decode: DecodeBlocks,
  applied: Applied,
): void {
  const { names, parent, tokenIds, blockTokens, tier } = event;
  applied.blockTokens = blockTokens;
  const decoded = decode(tokenIds, blockTokens);
  if (decoded === undefined) {
    applied.undecodable += names.length;
    return;
  }
  const root = rootKey(event.lora, event.extra);
  const { bytes, ends } = decoded;
  const placed = index.store(slot, { root, parent, names, bytes, ends, blockTokens, tier }, tokenIds);
  if (placed) applied.stored += names.length;
  else applied.orphaned += names.length;
}
