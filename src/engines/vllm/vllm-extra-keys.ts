/**
 * What else than its tokens decides a stored chain's content.
 *
 * vLLM gives each block a list of extra keys, or null: the adapter's name, `[identifier, offset]` of each image or audio in
 * it, and on the first block of a prompt the `cache_salt` (plain in events, `["cache_salt", text]` in the hash; 0.32.0).
 */
export interface ExtraKeys {
  /** Of the first block: "" for none, the bare salt, else JSON of what there is. */
  readonly extra: string;
  /** How many leading blocks are decided by the prompt's text under that root. */
  readonly usable: number;
}

/**
 * Read `extra_keys` of a `BlockStored`.
 *
 * @param isRoot - the first block starts a prompt. Only there may extra keys stand, since blocks below inherit the root's:
 * two prompts that differ in an image further down look alike to an index of text, so such blocks are not usable.
 * @param lora - the adapter that the event names, "" for none: its plain name comes first among the keys (0.32.0, seen live)
 */
export function extraOf(extraKeys: unknown, blocks: number, isRoot: boolean, lora = ""): ExtraKeys {
  if (!Array.isArray(extraKeys)) return { extra: "", usable: blocks };
  const first = isRoot ? textOfKeys(extraKeys[0], lora) : "";
  const start = isRoot ? 1 : 0;
  for (let i = start; i < Math.min(blocks, extraKeys.length); i++) {
    if (hasMedia(extraKeys[i])) return { extra: first, usable: i };
  }
  return { extra: first, usable: blocks };
}

function textOfKeys(keys: unknown, lora: string): string {
  if (!Array.isArray(keys)) return "";
  const others = lora !== "" && keys[0] === lora ? keys.slice(1) : keys;
  const kept = others.filter((key) => !isTagged(key, "lora"));
  if (kept.length === 0) return "";
  const only = kept.length === 1 ? kept[0] : undefined;
  if (typeof only === "string") return only;
  if (isTagged(only, "cache_salt")) return String(only[1]);
  return JSON.stringify(kept, (_, value) => (typeof value === "bigint" ? String(value) : value));
}

/** Plain texts are the adapter or the salt, which the root already carries. */
function hasMedia(keys: unknown): boolean {
  return (
    Array.isArray(keys) &&
    keys.some((key) => Array.isArray(key) && !isTagged(key, "lora") && !isTagged(key, "cache_salt"))
  );
}

function isTagged(key: unknown, tag: string): key is readonly [string, unknown] {
  return Array.isArray(key) && key.length === 2 && key[0] === tag;
}
