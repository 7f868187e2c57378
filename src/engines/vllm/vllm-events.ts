import { decode } from "@msgpack/msgpack";
import { CgnError } from "../../core/errors.ts";
import type { BlockName, KvEvent, KvEventBatch, Tier } from "../../core/kv-event.ts";
import { fieldsOf } from "../probe-text.ts";
import { extraOf } from "./vllm-extra-keys.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Decode one payload of vLLM's ZMQ publisher.
 *
 * The batch is an array `[ts, events, data_parallel_rank?]` (0.32.0) or a map; an event is an array `["BlockStored", …]`
 * (to 0.23) or a map `{"type": "BlockStored", …}` (from 0.24). Fields beyond the known ones, and kinds of event that later
 * versions may add, are passed over. Left out are stored blocks that the index can't use: those without token ids
 * (placeholders of CPU offload), and those below a text prefix whose content the prompt's text does not determine (images).
 *
 * @throws CgnError EVENTS_MALFORMED for anything else
 */
export function decodeVllmEvents(payload: Uint8Array): KvEventBatch {
  const batch = unpack(payload);
  const [ts, events, rank] = Array.isArray(batch) ? batch : batchFields(batch);
  if (typeof ts !== "number" || !Number.isFinite(ts)) throw malformed("the batch has no time");
  if (!Array.isArray(events)) throw malformed("the batch has no list of events");
  if (rank !== undefined && rank !== null && !isCount(rank)) throw malformed("the data-parallel rank is no number");
  return { ts, dpRank: isCount(rank) ? rank : undefined, events: events.flatMap(readEvent) };
}

/** Lengths in the header are the sender's claim: no list can be longer than the payload that holds it. */
function unpack(payload: Uint8Array): unknown {
  const longest = payload.length;
  const limits = { maxArrayLength: longest, maxMapLength: longest, maxStrLength: longest, maxBinLength: longest };
  try {
    return decode(payload, { useBigInt64: true, maxExtLength: longest, ...limits });
  } catch (cause) {
    throw malformed("it is no MessagePack", cause);
  }
}

function batchFields(batch: unknown): unknown[] {
  const fields = fieldsOf(batch);
  return [fields["ts"], fields["events"], fields["data_parallel_rank"]];
}

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
] as const;
const REMOVED = ["block_hashes", "medium", "group_idx"] as const;

function readEvent(event: unknown): KvEvent[] {
  const [tag, fields] = Array.isArray(event) ? tagged(event) : [fieldsOf(event)["type"], fieldsOf(event)];
  if (typeof tag !== "string") throw malformed("an event has no type");
  switch (tag) {
    case "BlockStored":
      return readStored(fields);
    case "BlockRemoved":
      return [
        {
          type: "removed",
          names: readNames(fields["block_hashes"]),
          tier: tierOf(fields["medium"]),
          group: groupOf(fields),
        },
      ];
    case "AllBlocksCleared":
      return [{ type: "cleared" }];
    default:
      return [];
  }
}

function tagged([tag, ...values]: readonly unknown[]): [unknown, Fields] {
  const names = tag === "BlockRemoved" ? REMOVED : STORED;
  return [tag, Object.fromEntries(names.map((name, i) => [name, values[i]]))];
}

function readStored(fields: Fields): KvEvent[] {
  const names = readNames(fields["block_hashes"]);
  const tokenIds = readTokens(fields["token_ids"]);
  if (names.length === 0 || tokenIds.length === 0) return [];
  const blockTokens = fields["block_size"];
  if (!isCount(blockTokens) || blockTokens === 0 || tokenIds.length !== names.length * blockTokens) {
    throw malformed(`${names.length} blocks of ${String(blockTokens)} tokens came with ${tokenIds.length} token ids`);
  }
  const parent = isAbsent(fields["parent_block_hash"]) ? undefined : readName(fields["parent_block_hash"]);
  const { extra, usable } = extraOf(fields["extra_keys"], names.length, parent === undefined);
  if (usable === 0) return [];
  return [
    {
      type: "stored",
      names: names.slice(0, usable),
      parent,
      tokenIds: tokenIds.subarray(0, usable * blockTokens),
      blockTokens,
      tier: tierOf(fields["medium"]) ?? "device",
      lora: loraOf(fields),
      extra,
      group: groupOf(fields),
    },
  ];
}

function readNames(value: unknown): BlockName[] {
  if (!Array.isArray(value)) throw malformed("an event has no list of block hashes");
  return value.map(readName);
}

/** Integers modulo 2^64; of bytes the last 8, big endian: vLLM's own way to make a hash an integer. */
function readName(value: unknown): BlockName {
  if (typeof value === "bigint") return BigInt.asUintN(64, value);
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt.asUintN(64, BigInt(value));
  if (!(value instanceof Uint8Array) || value.length < 8) throw malformed("a block hash is neither integer nor bytes");
  return new DataView(value.buffer, value.byteOffset + value.length - 8, 8).getBigUint64(0);
}

function readTokens(value: unknown): Uint32Array {
  if (isAbsent(value)) return new Uint32Array();
  if (!Array.isArray(value)) throw malformed("the token ids are no list");
  const ids = new Uint32Array(value.length);
  for (let i = 0; i < ids.length; i++) {
    const id: unknown = value[i];
    if (!isCount(id) || id > 0xffff_ffff) throw malformed("a token id is no unsigned 32-bit number");
    ids[i] = id;
  }
  return ids;
}

/** Where vLLM's connectors keep blocks. A medium not known here is taken for a store outside the host. */
function tierOf(medium: unknown): Tier | undefined {
  if (isAbsent(medium)) return undefined;
  if (typeof medium !== "string") throw malformed("a medium is no text");
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

function loraOf(fields: Fields): string {
  const { lora_name: name, lora_id: id } = fields;
  return isAbsent(name) ? (isAbsent(id) ? "" : String(id)) : String(name);
}

function groupOf(fields: Fields): number {
  return isCount(fields["group_idx"]) ? fields["group_idx"] : 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function malformed(what: string, cause?: unknown): CgnError {
  const message = `Cannot read KV events of vLLM: ${what}. A MessagePack batch as vLLM 0.9 to 0.33 sends it would be right`;
  return new CgnError("EVENTS_MALFORMED", message, {}, { cause }) as CgnError;
}
