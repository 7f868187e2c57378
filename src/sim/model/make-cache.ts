import type { BlockNamer } from "./cache-event.ts";
import type { CacheNews } from "./cache-news.ts";
import type { KvCache } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { RadixCache } from "./radix-cache.ts";
import { SlotStore } from "./slot-store.ts";
import type { TierStack } from "./tier-stack.ts";

/**
 * The cache that loses blocks as this engine does.
 * @throws RangeError for tiers behind slots: llama-server has none
 */
export function makeCache(
  limits: EngineLimits,
  parts: { readonly namer: BlockNamer; readonly news: CacheNews; readonly tiers: TierStack },
): KvCache {
  const { blocks, blockTokens } = limits;
  switch (limits.eviction ?? "vllm") {
    case "vllm":
      return new PrefixCache({ blocks, blockTokens, ...parts });
    case "sglang":
      return new RadixCache({ blocks, blockTokens, ...parts });
    case "llama_cpp":
      if (parts.tiers.any) throw new RangeError("slots have no tiers behind them");
      return new SlotStore(limits, parts.news);
  }
}
