import { CgnError } from "../core/errors.ts";
import type { BlockName, BlockNames, KvEvent, KvEventBatch } from "../core/kv-event.ts";
import { MsgpackError, MsgpackReader } from "./msgpack-reader.ts";

/** One event as it stood on the wire. Fields that no engine's reader asks for are not kept. */
export interface WireEvent {
  type: string | undefined;
  names: BlockNames | undefined;
  parent: BlockName | undefined;
  tokenIds: Uint32Array | undefined;
  /** Small values as they came, undefined or null when absent. */
  blockSize: unknown;
  loraId: unknown;
  loraName: unknown;
  medium: unknown;
  extraKeys: unknown;
  group: unknown;
  specKind: unknown;
  salt: unknown;
  /** What is wrong with a field; counts only when the event's type is known. */
  problem: string | undefined;
}

/** What differs between engines that publish events in vLLM's way. */
export interface EventDialect {
  /** The engine's name for errors. */
  readonly engine: string;
  /** What would be right, a sentence without its full stop. */
  readonly right: string;
  /** Fields of the array form in their order, after the tag. */
  readonly stored: readonly string[];
  readonly removed: readonly string[];
  /** May the batch be a map? */
  readonly mapBatch: boolean;
  /** Undefined: there is nothing in it for an index. @throws MsgpackError with what is wrong */
  event(wire: WireEvent): KvEvent | undefined;
}

/** Bytes of payload read before the event loop may have its turn: under a millisecond. */
const STEP_BYTES = 128 * 1024;
/** Ids or names read in one go. */
const STEP_ITEMS = 16_384;
/** Names in one message: each costs many times its bytes here. */
const MAX_NAMES = 2 ** 20;
/** Tokens of one block; engines have 1 to some thousands. */
const MAX_BLOCK_TOKENS = 65_536;

/**
 * Read one payload of a KV event publisher, in steps that others may be let in between.
 * @throws CgnError EVENTS_MALFORMED
 */
export function* readEventBatch(payload: Uint8Array, dialect: EventDialect): Generator<undefined, KvEventBatch> {
  try {
    return yield* new BatchReader(payload, dialect).read();
  } catch (error) {
    if (!(error instanceof MsgpackError)) throw error;
    const message = `Cannot read KV events of ${dialect.engine}: ${error.message}. ${dialect.right}`;
    throw new CgnError("EVENTS_MALFORMED", message, {}, { cause: error });
  }
}

/** The same in one go. */
export function decodeEventBatch(payload: Uint8Array, dialect: EventDialect): KvEventBatch {
  const steps = readEventBatch(payload, dialect);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** A whole number of at least 0. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** The blocks' size, checked against their tokens. @throws MsgpackError */
export function blockTokensOf({ names, tokenIds, blockSize }: WireEvent): number {
  const ids = tokenIds?.length ?? 0;
  const count = names?.length ?? 0;
  if (!isCount(blockSize) || blockSize === 0 || blockSize > MAX_BLOCK_TOKENS || ids !== count * blockSize)
    throw new MsgpackError(`${count} blocks of ${printed(blockSize)} tokens came with ${ids} token ids`);
  return blockSize;
}

const printed = (value: unknown): string => (isAbsent(value) ? "no" : String(value).slice(0, 40));

class BatchReader {
  readonly #in: MsgpackReader;
  readonly #dialect: EventDialect;
  #names = 0;
  #left = 0;

  constructor(payload: Uint8Array, dialect: EventDialect) {
    this.#in = new MsgpackReader(payload);
    this.#dialect = dialect;
  }

  *read(): Generator<undefined, KvEventBatch> {
    const length = this.#in.array();
    let events: KvEvent[] | undefined;
    let [ts, rank]: unknown[] = [];
    const entries = length < 0 && this.#dialect.mapBatch ? this.#in.map() : -1;
    if (length < 0 && entries < 0) throw new MsgpackError("the batch is no list");
    for (let i = 0; i < Math.max(length, entries); i++) {
      const key = length >= 0 ? BATCH[i] : this.#in.text();
      if (key === "ts") ts = this.#in.value();
      else if (key === "events") events = yield* this.#events();
      else if (key === "data_parallel_rank") rank = this.#in.value();
      else yield* this.#skip();
    }
    if (!this.#in.done) throw new MsgpackError("something follows the batch");
    if (typeof ts !== "number" || !Number.isFinite(ts)) throw new MsgpackError("the batch has no time");
    if (events === undefined) throw new MsgpackError("the batch has no list of events");
    if (!isAbsent(rank) && !isCount(rank)) throw new MsgpackError("the data-parallel rank is no number");
    return { ts, dpRank: isCount(rank) ? rank : undefined, events };
  }

  *#events(): Generator<undefined, KvEvent[]> {
    const length = this.#in.array();
    if (length < 0) throw new MsgpackError("the batch has no list of events");
    const events: KvEvent[] = [];
    let since = this.#in.at;
    for (let i = 0; i < length; i++) {
      const wire = emptyEvent();
      const fields = this.#in.map();
      if (fields < 0) yield* this.#tagged(wire);
      for (let k = 0; k < fields; k++) {
        const rest = this.#field(wire, this.#in.text());
        if (rest !== undefined) yield* rest;
      }
      if (wire.type === undefined) throw new MsgpackError("an event has no type");
      const event = this.#dialect.event(wire);
      if (event !== undefined) events.push(event);
      if (this.#in.at - since < STEP_BYTES) continue;
      since = this.#in.at;
      yield;
    }
    return events;
  }

  *#tagged(wire: WireEvent): Generator<undefined, void> {
    const length = this.#in.array();
    if (length < 1) throw new MsgpackError("an event is neither a map nor a list that starts with its type");
    wire.type = this.#in.text();
    const { removed, stored } = this.#dialect;
    // Of a kind that is not known, no place means anything.
    const names = wire.type === "BlockRemoved" ? removed : wire.type === "BlockStored" ? stored : [];
    for (let i = 1; i < length; i++) {
      const rest = this.#field(wire, names[i - 1]);
      if (rest !== undefined) yield* rest;
    }
  }

  /** One value, put where its name says. @returns what is left to do in steps, when it is long */
  #field(wire: WireEvent, name: string | undefined): Generator<undefined, void> | undefined {
    switch (name) {
      case "block_hashes":
        return this.#nameList(wire);
      case "token_ids":
        return this.#idList(wire);
      default:
        if (this.#smallField(wire, name)) return undefined;
        return this.#skipShort() ? undefined : this.#skip(this.#left);
    }
  }

  /** @returns false when more is left to be passed over: `#left` values */
  #skipShort(): boolean {
    this.#left = this.#in.skipSome(1, STEP_ITEMS);
    return this.#left === 0;
  }

  *#skip(left = 1): Generator<undefined, void> {
    while (left > 0) {
      left = this.#in.skipSome(left, STEP_ITEMS);
      yield;
    }
  }

  /** @returns false for a field that nobody asks for: it is not read */
  #smallField(wire: WireEvent, name: string | undefined): boolean {
    const input = this.#in;
    switch (name) {
      case "type":
        wire.type = input.text();
        return true;
      case "parent_block_hash":
        if (input.takeNil()) return true;
        wire.parent = input.name();
        if (wire.parent === undefined) wire.problem ??= NO_NAME;
        return true;
      case "block_size":
        wire.blockSize = input.value();
        return true;
      case "lora_id":
        wire.loraId = input.value();
        return true;
      case "lora_name":
        wire.loraName = input.value();
        return true;
      case "medium":
        wire.medium = input.value();
        return true;
      case "extra_keys":
        wire.extraKeys = input.value();
        return true;
      case "group_idx":
        wire.group = input.value();
        return true;
      case "kv_cache_spec_kind":
        wire.specKind = input.value();
        return true;
      case "cache_salt":
        wire.salt = input.value();
        return true;
      default:
        return false;
    }
  }

  #nameList(wire: WireEvent): Generator<undefined, void> | undefined {
    const length = this.#in.array();
    if (length < 0) {
      wire.problem ??= "an event has no list of block hashes";
      return this.#skip();
    }
    this.#names += length;
    if (this.#names > MAX_NAMES) throw new MsgpackError(`it names more than ${MAX_NAMES} blocks`);
    const names = new BigUint64Array(length);
    wire.names = names;
    if (length > FEW) return this.#manyNames(names);
    for (let i = 0; i < length; i++) {
      const name = this.#in.name();
      if (name === undefined) throw new MsgpackError(NO_NAME);
      names[i] = name;
    }
    return undefined;
  }

  *#manyNames(names: BigUint64Array): Generator<undefined, void> {
    // As words, so that no bigint is made of a name. Little endian, as all machines that Node runs on.
    const words = new Uint32Array(names.buffer);
    for (let from = 0; from < names.length; from += STEP_ITEMS) {
      if (from > 0) yield;
      if (!this.#in.names(words, from, Math.min(names.length, from + STEP_ITEMS))) throw new MsgpackError(NO_NAME);
    }
  }

  #idList(wire: WireEvent): Generator<undefined, void> | undefined {
    if (this.#in.takeNil()) return undefined;
    const length = this.#in.array();
    if (length < 0) {
      wire.problem ??= "the token ids are no list";
      return this.#skip();
    }
    const ids = new Uint32Array(length);
    wire.tokenIds = ids;
    if (length > STEP_ITEMS) return this.#manyIds(ids);
    this.#ids(ids, 0, length);
    return undefined;
  }

  *#manyIds(ids: Uint32Array): Generator<undefined, void> {
    for (let from = 0; from < ids.length; from += STEP_ITEMS) {
      if (from > 0) yield;
      this.#ids(ids, from, Math.min(ids.length, from + STEP_ITEMS));
    }
  }

  #ids(ids: Uint32Array, from: number, to: number): void {
    if (!this.#in.ids(ids, from, to)) throw new MsgpackError("a token id is no unsigned 32-bit number");
  }
}

/** So many names are not worth a second view of their array. */
const FEW = 8;
const NO_NAME = "a block hash is neither an integer of 64 bits nor bytes";
const BATCH: readonly string[] = ["ts", "events", "data_parallel_rank"];

function emptyEvent(): WireEvent {
  return {
    type: undefined,
    names: undefined,
    parent: undefined,
    tokenIds: undefined,
    blockSize: undefined,
    loraId: undefined,
    loraName: undefined,
    medium: undefined,
    extraKeys: undefined,
    group: undefined,
    specKind: undefined,
    salt: undefined,
    problem: undefined,
  };
}
