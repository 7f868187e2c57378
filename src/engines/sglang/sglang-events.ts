import type { KvEvent, KvEventBatch, Tier } from "../../core/kv-event.ts";
import {
  blockTokensOf,
  decodeEventBatch,
  type EventDialect,
  isAbsent,
  readEventBatch,
  type WireEvent,
} from "../event-batch.ts";
import { MsgpackError } from "../msgpack-reader.ts";

/** Positions of the array form (kv_events.py, msgspec `array_like`, before 0.5.23). */
const STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"] as const;
const REMOVED = ["block_hashes", "medium"] as const;

const CLEARED: KvEvent = { type: "cleared" };

const DIALECT: EventDialect = {
  engine: "SGLang",
  right: "A MessagePack batch as SGLang 0.5 sends it would be right",
  stored: STORED,
  removed: REMOVED,
  mapBatch: false,
  event: readEvent,
};

/**
 * Decode one payload of SGLang's KV event publisher: MessagePack `[ts, events, attn_dp_rank?]`.
 *
 * SGLang 0.5.23 writes an event as a map with `type`; older ones as an array `[tag, …]`. Both are read; fields that a newer
 * version adds, and new kinds of event, are passed over. One `BlockStored` may hold several pages; `block_size` is the page
 * size. Hashes are signed 64-bit numbers there and unsigned here.
 *
 * @throws CgnError EVENTS_MALFORMED
 */
export function decodeSglangEvents(payload: Uint8Array): KvEventBatch {
  return decodeEventBatch(payload, DIALECT);
}

/** The same in steps of under a millisecond. */
export function decodeSglangEventsInSteps(payload: Uint8Array): Generator<undefined, KvEventBatch> {
  return readEventBatch(payload, DIALECT);
}

function readEvent(wire: WireEvent): KvEvent | undefined {
  switch (wire.type) {
    case "BlockStored":
      return readStored(wire);
    case "BlockRemoved": {
      const names = namesOf(wire);
      if (names.length === 0) return undefined;
      return { type: "removed", names, tier: isAbsent(wire.medium) ? undefined : tierOf(wire.medium), group: 0 };
    }
    case "AllBlocksCleared":
      return CLEARED;
    default:
      return undefined;
  }
}

function readStored(wire: WireEvent): KvEvent | undefined {
  const names = namesOf(wire);
  const { tokenIds, parent } = wire;
  if (tokenIds === undefined) throw new MsgpackError("BlockStored has no token ids");
  const blockTokens = blockTokensOf(wire);
  if (names.length === 0) return undefined;
  return {
    type: "stored",
    names,
    parent,
    tokenIds,
    blockTokens,
    tier: isAbsent(wire.medium) ? "device" : tierOf(wire.medium),
    lora: loraOf(wire),
    extra: textOf(wire.salt),
    group: 0,
  };
}

function namesOf({ names, problem }: WireEvent) {
  if (problem !== undefined) throw new MsgpackError(problem);
  if (names === undefined) throw new MsgpackError("an event has no list of block hashes");
  return names;
}

/** The adapter's name where it is told, else its id. */
function loraOf({ loraName, loraId }: WireEvent): string {
  const name = textOf(loraName);
  if (name !== "") return name;
  return typeof loraId === "number" || typeof loraId === "bigint" || typeof loraId === "string" ? String(loraId) : "";
}

/** SGLang 0.5.23 writes GPU, CPU_PINNED, DISK and EXTERNAL; before it was CPU_TIER1 (host) and CPU_TIER2 (third level). */
const TIERS: Readonly<Record<string, Tier>> = {
  GPU: "device",
  CPU: "host",
  CPU_PINNED: "host",
  CPU_TIER1: "host",
  CPU_TIER2: "shared",
  DISK: "disk",
  EXTERNAL: "shared",
};

/** A medium that a newer version adds counts as the slowest, so that it is never preferred by mistake. */
function tierOf(medium: unknown): Tier {
  if (typeof medium !== "string") throw new MsgpackError("a medium is no text");
  return TIERS[medium.toUpperCase()] ?? "shared";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
