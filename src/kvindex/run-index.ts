import { createNaiveIndex } from "./naive-index.ts";
import type { PrefixIndex, PrefixIndexOptions } from "./prefix-index.ts";

/** Make an empty index. */
export function createPrefixIndex(_options: PrefixIndexOptions): PrefixIndex {
  return createNaiveIndex();
}
