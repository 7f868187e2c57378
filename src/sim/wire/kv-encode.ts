import { encode } from "@msgpack/msgpack";
import type { CacheEvent, ExtraKey } from "../model/prefix-cache.ts";

/** How events look on the wire. */
export interface KvEncoding {
  /** `vllm` tells each removed block alone; `sglang` tells a run of them at once and omits what is not set. */
  readonly dialect: "vllm" | "sglang";
  /** Events as maps (vLLM 0.24 and later, SGLang) or as tagged arrays (vLLM before). */
  readonly shape: "map" | "array";
  /** Hashes as 64-bit integers (the default of both), or whole as bytes (vLLM, `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0`). */
  readonly hashes: "int" | "bytes";
  readonly blockTokens: number;
}

type WireHash = bigint | Uint8Array;

/**
 * One message of the publisher: msgpack `[ts, events, dp rank]`.
 * @param ts seconds since the epoch
 */
export function encodeBatch(events: readonly CacheEvent[], ts: number, encoding: KvEncoding, rank = 0): Uint8Array {
  // A whole number would be written as an integer; engines always send a float64.
  const stamp = Number.isInteger(ts) ? ts + 1e-6 : ts;
  const wire = (encoding.dialect === "sglang" ? joinRemoved(events) : events.map((e) => [e])).map((group) =>
    encodeEvent(group, encoding),
  );
  return encode([stamp, wire, rank], { useBigInt64: true });
}

/** The hash that stands for a digest: vLLM takes its last 8 bytes unsigned, SGLang its first 8 signed. */
export function wireHash(digestHex: string, encoding: KvEncoding): WireHash {
  if (encoding.hashes === "bytes") return Uint8Array.from(Buffer.from(digestHex, "hex"));
  if (encoding.dialect === "vllm") return BigInt(`0x${digestHex.slice(-16)}`);
  return BigInt.asIntN(64, BigInt(`0x${digestHex.slice(0, 16)}`));
}

/** Neighbouring removals as one group; every other event alone. */
function joinRemoved(events: readonly CacheEvent[]): CacheEvent[][] {
  const groups: CacheEvent[][] = [];
  for (const event of events) {
    const last = groups.at(-1);
    if (event.type === "removed" && last?.[0]?.type === "removed") last.push(event);
    else groups.push([event]);
  }
  return groups;
}

function encodeEvent(group: readonly CacheEvent[], encoding: KvEncoding): unknown {
  const event = group[0]!;
  const fields = event.type === "stored" ? storedFields(event, encoding) : [];
  if (event.type === "removed") {
    const hashes = group.flatMap((e) => (e.type === "removed" ? [wireHash(e.name, encoding)] : []));
    fields.push(["type", "BlockRemoved"], ["block_hashes", hashes], ["medium", "GPU"]);
    if (encoding.dialect === "vllm") fields.push(["group_idx", 0]);
  } else if (event.type === "cleared") {
    fields.push(["type", "AllBlocksCleared"]);
  }
  return encoding.shape === "map" ? Object.fromEntries(fields) : fields.map(([, value]) => value);
}

/** In the order of vLLM's positional form, which its maps keep. */
function storedFields(event: Extract<CacheEvent, { type: "stored" }>, encoding: KvEncoding): [string, unknown][] {
  const keys = event.extra[0] ?? [];
  const lora = keys.find((key) => key.kind === "lora")?.value;
  const salt = keys.find((key) => key.kind === "cache_salt")?.value;
  const fields: [string, unknown][] = [
    ["type", "BlockStored"],
    ["block_hashes", event.names.map((name) => wireHash(name, encoding))],
    ["parent_block_hash", event.parent === undefined ? null : wireHash(event.parent, encoding)],
    ["token_ids", event.tokenIds],
    ["block_size", encoding.blockTokens],
    ["lora_id", null],
    ["medium", "GPU"],
  ];
  if (encoding.dialect === "sglang") {
    if (salt !== undefined) fields.push(["cache_salt", salt]);
    if (lora !== undefined) fields.push(["lora_name", lora]);
    return fields;
  }
  fields.push(["lora_name", lora ?? null], ["extra_keys", event.extra.map(vllmExtra)]);
  fields.push(["group_idx", 0], ["kv_cache_spec_kind", "full_attention"]);
  return fields;
}

/** The event shows the values without the tags that the hash has (vLLM 0.32.0). */
function vllmExtra(keys: readonly ExtraKey[]): readonly string[] | null {
  return keys.length === 0 ? null : keys.map((key) => key.value);
}
