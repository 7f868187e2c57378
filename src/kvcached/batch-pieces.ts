import type { BlockNames, BlockStored, KvEvent, KvEventBatch } from "../core/kv-event.ts";

/** Blocks that are applied without a break: about 5 ms of work. */
const PIECE_BLOCKS = 2_048;

/**
 * The same events in batches of at most about `most` blocks, for an event loop that others wait for. A chain that is longer is
 * cut: the rest hangs below the last block of the part before.
 */
export function* batchPieces(batch: KvEventBatch, most = PIECE_BLOCKS): Generator<KvEventBatch> {
  let events: KvEvent[] = [];
  let blocks = 0;
  for (const event of batch.events) {
    for (const part of eventParts(event, most)) {
      const count = part.type === "cleared" ? 1 : part.names.length;
      if (blocks + count > most && events.length > 0) {
        yield { ...batch, events };
        events = [];
        blocks = 0;
      }
      events.push(part);
      blocks += count;
    }
  }
  if (events.length > 0) yield { ...batch, events };
}

function* eventParts(event: KvEvent, most: number): Generator<KvEvent> {
  if (event.type === "cleared" || event.names.length <= most) {
    yield event;
    return;
  }
  for (let from = 0; from < event.names.length; from += most) {
    const names = event.names.slice(from, from + most);
    yield event.type === "stored" ? storedPart(event, names, from) : { ...event, names };
  }
}

function storedPart(event: BlockStored, names: BlockNames, from: number): BlockStored {
  const { blockTokens, tokenIds } = event;
  return {
    ...event,
    names,
    parent: from === 0 ? event.parent : event.names[from - 1],
    tokenIds: tokenIds.subarray(from * blockTokens, (from + names.length) * blockTokens),
  };
}
