import type { BlockNamer } from "./cache-event.ts";
import type { CacheNews } from "./cache-news.ts";
import type { KvCache } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import { PrefixCache } from "./prefix-cache.ts";
import type { TierStack } from "./tier-stack.ts";

/** The cache that loses blocks as this engine does. */
export function makeCache(
  limits: EngineLimits,
  parts: { readonly namer: BlockNamer; readonly news: CacheNews; readonly tiers: TierStack },
): KvCache {
  const { blocks, blockTokens } = limits;
  return new PrefixCache({ blocks, blockTokens, ...parts });
}
