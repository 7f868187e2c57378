import type { Tier } from "../core/kv-event.ts";

/** All tiers, fastest first: a tier's place here is its number inside an index. */
export const TIERS: readonly Tier[] = ["device", "host", "disk", "shared"];

/** A tier's number, 0 the fastest. */
export function tierRank(tier: Tier): number {
  return tier === "device" ? 0 : TIERS.indexOf(tier);
}
