import type { KvEvent, KvEventBatch, Tier } from "../../core/kv-event.ts";
import {
  blockTokensOf,
  decodeEventBatch,
  type EventDialect,
  isAbsent,
  isCount,
  readEventBatch,
  type WireEvent,
} from "../event-batch.ts";
import { MsgpackError } from "../msgpack-reader.ts";
import { extraOf } from "./vllm-extra-keys.ts";

/** Positions of the array form (vLLM 0.23, `distributed/kv_events.py`); a shorter array leaves the rest out. */
const STORED = [
  "block_hashes",
  "parent_block_hash",
  "token_ids",
  "block_size",
  "lora_id",
  "medium",
  "lora_name",
  "extra_keys",
  "group_idx",
  "kv_cache_spec_kind",
] as const;
const REMOVED = ["block_hashes", "medium", "group_idx"] as const;

const CLEARED: KvEvent = { type: "cleared" };

const DIALECT: EventDialect = {
  engine: "vLLM",
  right: "A MessagePack batch as vLLM 0.9 to 0.33 sends it would be right",
  stored: STORED,
  removed: REMOVED,
  mapBatch: true,
  event: readEvent,
};

/**
 * Decode one payload of vLLM's ZMQ publisher.
 *
 * The batch is an array `[ts, events, data_parallel_rank?]` (0.32.0) or a map; an event is an array `["BlockStored", …]`
 * (to 0.23) or a map `{"type": "BlockStored", …}` (from 0.24). Fields beyond the known ones, and kinds of event that later
 * versions may add, are passed over. Left out are stored blocks that the index can't use: those below a text prefix whose
 * content the prompt's text does not determine (images). A store without token ids (CPU offload, unless its connector was
 * told `self_describing_kv_events`) says that known blocks lie in that tier too.
 *
 * @throws CgnError EVENTS_MALFORMED for anything else
 */
export function decodeVllmEvents(payload: Uint8Array): KvEventBatch {
  return decodeEventBatch(payload, DIALECT);
}

/** The same in steps of under a millisecond. */
export function decodeVllmEventsInSteps(payload: Uint8Array): Generator<undefined, KvEventBatch> {
  return readEventBatch(payload, DIALECT);
}

function readEvent(wire: WireEvent): KvEvent | undefined {
  switch (wire.type) {
    case "BlockStored":
      return readStored(wire);
    case "BlockRemoved": {
      const names = namesOf(wire);
      if (names.length === 0) return undefined;
      return { type: "removed", names, tier: tierOf(wire.medium), group: groupOf(wire.group) };
    }
    case "AllBlocksCleared":
      return CLEARED;
    default:
      return undefined;
  }
}

function readStored(wire: WireEvent): KvEvent | undefined {
  const names = namesOf(wire);
  if (names.length === 0) return undefined;
  const { parent, tokenIds } = wire;
  const tier = tierOf(wire.medium) ?? "device";
  const group = groupOf(wire.group);
  if (tokenIds === undefined || tokenIds.length === 0) {
    return tier === "device" ? undefined : { type: "copied", names, tier, group };
  }
  const blockTokens = blockTokensOf(wire);
  const lora = loraOf(wire);
  const { extra, usable } = extraOf(wire.extraKeys, names.length, parent === undefined, lora);
  if (usable === 0) return undefined;
  const whole = usable === names.length;
  const reachesBack = reachOf(wire.specKind);
  return {
    type: "stored",
    names: whole ? names : names.slice(0, usable),
    parent,
    tokenIds: whole ? tokenIds : tokenIds.subarray(0, usable * blockTokens),
    blockTokens,
    tier,
    lora,
    extra,
    group,
    ...(reachesBack === undefined ? {} : { reachesBack }),
  };
}

function namesOf({ names, problem }: WireEvent) {
  if (problem !== undefined) throw new MsgpackError(problem);
  if (names === undefined) throw new MsgpackError("an event has no list of block hashes");
  return names;
}

/** Where vLLM's connectors keep blocks. A medium not known here is taken for a store outside the host. */
function tierOf(medium: unknown): Tier | undefined {
  if (isAbsent(medium)) return undefined;
  if (typeof medium !== "string") throw new MsgpackError("a medium is no text");
  switch (medium.toUpperCase()) {
    case "GPU":
      return "device";
    case "CPU":
      return "host";
    case "STORAGE":
    case "DISK":
      return "disk";
    default:
      return "shared";
  }
}

function loraOf({ loraName: name, loraId: id }: WireEvent): string {
  if (!isAbsent(name)) return String(name);
  return isAbsent(id) ? "" : String(id);
}

/** LMCache's connectors tell chunks of all groups, and no group. */
function groupOf(group: unknown): number | undefined {
  return isCount(group) ? group : undefined;
}

/** `KVCacheSpecKind` of vLLM 0.32.0 (`v1/kv_cache_interface.py`). */
function reachOf(kind: unknown): boolean | undefined {
  switch (kind) {
    case "full_attention":
    case "mla_attention":
    case "sink_full_attention":
      return true;
    case "sliding_window":
    case "sliding_window_mla":
    case "mamba":
    case "chunked_local_attention":
    case "encoder_only_attention":
    case "cross_attention":
      return false;
    default:
      return undefined;
  }
}
