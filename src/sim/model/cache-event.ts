/**
 * Names a KV block, chained, so that equal names mean equal prefixes: text (a digest in hex) where there are token ids, a
 * block key where there are none.
 */
export type BlockName = string | number;

/** What makes equal tokens different for the cache. */
export interface ExtraKey {
  readonly kind: "lora" | "cache_salt";
  readonly value: string;
}

/** Names a full block from its parent's name (undefined at the root), its token ids and its extra keys. */
export type BlockNamer = (
  parent: string | undefined,
  tokenIds: readonly number[],
  extra: readonly ExtraKey[],
) => string;

/** What an engine tells of its cache. `stored` carries a chain of blocks; `extra` has one list a block. */
export type CacheEvent =
  | {
      readonly type: "stored";
      readonly names: readonly string[];
      readonly parent: string | undefined;
      /** [names.length × blockTokens] */
      readonly tokenIds: readonly number[];
      readonly extra: readonly (readonly ExtraKey[])[];
    }
  | { readonly type: "removed"; readonly name: string }
  | { readonly type: "cleared" };
