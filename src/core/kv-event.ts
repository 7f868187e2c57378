/**
 * An engine's own name of a KV block: an unsigned 64-bit number. Signed hashes are taken modulo 2^64; byte hashes give
 * their last 8 bytes, big endian (what vLLM does itself for its integer form). Opaque: used for removal only.
 */
export type BlockName = bigint;

/** Names of blocks in their order. */
export type BlockNames = readonly BlockName[] | BigUint64Array;

/** Where a block lies. `device` GPU, `host` CPU memory, `disk`, `shared` a store that other hosts reach. */
export type Tier = "device" | "host" | "disk" | "shared";

/** Blocks that an engine stored: a chain, the first one's parent given. */
export interface BlockStored {
  readonly type: "stored";
  readonly names: BlockNames;
  /** Undefined at the root. */
  readonly parent: BlockName | undefined;
  /** [names.length × blockTokens] token ids, all blocks in order. */
  readonly tokenIds: Uint32Array;
  readonly blockTokens: number;
  readonly tier: Tier;
  /** Adapter name or id, "" for the base model. */
  readonly lora: string;
  /** Extra keys of the first block, canonical text ("" for none): cache_salt, multimodal ids. */
  readonly extra: string;
  /** KV group of a hybrid model; 0 where the engine has one. Undefined: blocks of all groups (a connector's chunks). */
  readonly group: number | undefined;
  /**
   * Does the group reach back to the prompt's start (full attention), so that all blocks before one must be there too? False
   * for windows and states, undefined where the engine does not tell.
   */
  readonly reachesBack?: boolean;
}

/** Blocks lie in another tier, told by their names alone (vLLM's offloading connector, unless it describes them itself). */
export interface BlocksCopied {
  readonly type: "copied";
  readonly names: BlockNames;
  readonly tier: Tier;
  readonly group: number | undefined;
}

export interface BlockRemoved {
  readonly type: "removed";
  readonly names: BlockNames;
  readonly tier: Tier | undefined;
  readonly group: number | undefined;
}

export interface AllBlocksCleared {
  readonly type: "cleared";
}

export type KvEvent = BlockStored | BlocksCopied | BlockRemoved | AllBlocksCleared;

/** One message of an engine's publisher, in order. */
export interface KvEventBatch {
  /** Seconds since the epoch, by the engine's clock. */
  readonly ts: number;
  readonly dpRank: number | undefined;
  readonly events: readonly KvEvent[];
}
