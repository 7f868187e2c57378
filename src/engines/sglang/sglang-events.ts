import { decode } from "@msgpack/msgpack";
import { CgnError } from "../../core/errors.ts";
import type { BlockName, KvEvent, KvEventBatch, Tier } from "../../core/kv-event.ts";

/**
 * Decode one payload of SGLang's KV event publisher: MessagePack `[ts, events, attn_dp_rank?]`.
 *
 * SGLang 0.5.23 writes an event as a map with `type`; older ones as an array `[tag, …]`. Both are read, and fields that a
 * newer version adds are left alone. One `BlockStored` may hold several pages; `block_size` is the page size.
 * Hashes are signed 64-bit numbers there and unsigned here.
 *
 * @throws CgnError EVENTS_MALFORMED
 */
export function decodeSglangEvents(payload: Uint8Array): KvEventBatch {
  const batch = unpack(payload);
  if (!Array.isArray(batch)) throw malformed("the batch is no array");
  const [ts, events, rank] = batch as unknown[];
  if (typeof ts !== "number" || !Number.isFinite(ts)) throw malformed("the batch has no time");
  if (!Array.isArray(events)) throw malformed("the batch has no list of events");
  return { ts, dpRank: rankOf(rank), events: events.map(readEvent) };
}

function unpack(payload: Uint8Array): unknown {
  try {
    return decode(payload, { useBigInt64: true });
  } catch (cause) {
    throw malformed("it is no MessagePack", cause);
  }
}

function rankOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw malformed("the data-parallel rank is no whole number");
}

type Fields = Readonly<Record<string, unknown>>;

/** Positions of the array form (kv_events.py, msgspec `array_like`, before 0.5.23). */
const STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"] as const;
const REMOVED = ["block_hashes", "medium"] as const;

function readEvent(event: unknown): KvEvent {
  if (Array.isArray(event)) {
    const [tag, ...values] = event as unknown[];
    return toEvent(tag, named(tag === "BlockStored" ? STORED : REMOVED, values));
  }
  if (typeof event !== "object" || event === null) throw malformed("an event is neither a map nor an array");
  return toEvent((event as Fields)["type"], event as Fields);
}

function named(names: readonly string[], values: readonly unknown[]): Fields {
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

function toEvent(tag: unknown, fields: Fields): KvEvent {
  switch (tag) {
    case "BlockStored":
      return stored(fields);
    case "BlockRemoved":
      return {
        type: "removed",
        names: hashes(fields["block_hashes"]),
        tier: absent(fields["medium"]) ? undefined : tierOf(fields["medium"]),
        group: 0,
      };
    case "AllBlocksCleared":
      return { type: "cleared" };
    default:
      throw malformed(
        `an event has the unknown type ${JSON.stringify(tag, (_, v) => (typeof v === "bigint" ? `${v}` : v))}`,
      );
  }
}

function stored(fields: Fields): KvEvent {
  const names = hashes(fields["block_hashes"]);
  const tokenIds = tokens(fields["token_ids"]);
  const blockTokens = fields["block_size"];
  if (typeof blockTokens !== "number" || !Number.isInteger(blockTokens) || blockTokens < 1) {
    throw malformed("BlockStored has no block size");
  }
  if (tokenIds.length !== names.length * blockTokens) {
    throw malformed(`BlockStored has ${tokenIds.length} tokens for ${names.length} blocks of ${blockTokens}`);
  }
  const parent = fields["parent_block_hash"];
  return {
    type: "stored",
    names,
    parent: absent(parent) ? undefined : hash(parent),
    tokenIds,
    blockTokens,
    tier: absent(fields["medium"]) ? "device" : tierOf(fields["medium"]),
    lora: loraOf(fields),
    extra: text(fields["cache_salt"]),
    group: 0,
  };
}

/** The adapter's name where it is told, else its id. */
function loraOf(fields: Fields): string {
  const name = text(fields["lora_name"]);
  if (name !== "") return name;
  const id = fields["lora_id"];
  return typeof id === "number" || typeof id === "bigint" || typeof id === "string" ? String(id) : "";
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
  if (typeof medium !== "string") throw malformed("a medium is no text");
  return TIERS[medium.toUpperCase()] ?? "shared";
}

function hashes(value: unknown): BlockName[] {
  if (!Array.isArray(value)) throw malformed("an event has no list of block hashes");
  return value.map(hash);
}

function hash(value: unknown): BlockName {
  if (typeof value === "bigint") return BigInt.asUintN(64, value);
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt.asUintN(64, BigInt(value));
  throw malformed("a block hash is no 64-bit number");
}

function tokens(value: unknown): Uint32Array {
  if (!Array.isArray(value)) throw malformed("BlockStored has no token ids");
  const ids = new Uint32Array(value.length);
  for (let i = 0; i < ids.length; i++) {
    const id: unknown = value[i];
    // A typed array would take any number modulo 2^32: another token, silently.
    if (typeof id !== "number" || id >>> 0 !== id) throw malformed("a token id is no unsigned 32-bit number");
    ids[i] = id;
  }
  return ids;
}

function absent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function malformed(what: string, cause?: unknown): CgnError<"EVENTS_MALFORMED"> {
  const options = cause === undefined ? undefined : { cause };
  return new CgnError("EVENTS_MALFORMED", `Cannot decode SGLang KV events: ${what}`, {}, options);
}
