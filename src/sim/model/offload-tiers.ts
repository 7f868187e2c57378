import { GIB } from "../../core/units.ts";
import type { TierLimits } from "./limits.ts";
import type { EngineProfile, LinkSpeed } from "./profile.ts";
import type { TierName } from "./tier-store.ts";

/** A Llama-3 8B's keys and values in 16 bits: 32 layers × 8 heads × 128 × 2 × 2 bytes; where the profile has no figure. */
export const DEFAULT_KV_BYTES = 131_072;
/** Host memory over PCIe 4.0 × 16 as engines reach it, an NVMe disk, and a store over 25 GbE; where the profile has no figure. */
const DEFAULT_LINKS: Readonly<Record<TierName, LinkSpeed>> = {
  host: { gbPerS: 20, latencyMs: 0.2 },
  disk: { gbPerS: 3, latencyMs: 1 },
  shared: { gbPerS: 2.5, latencyMs: 2 },
};

/** What keeps blocks that fall off a device, and how much of them. */
export interface OffloadRoom {
  /** GiB by tier; what is missing or 0 is not there. */
  readonly gib: Readonly<Partial<Record<TierName, number>>>;
  /** Steps wait for reads (LMCache in vLLM's own process); else they go on beside them. */
  readonly blocksStep: boolean;
  /** When blocks go to the first tier. */
  readonly write: NonNullable<TierLimits["write"]>;
}

/**
 * The tiers of an engine, from the fastest on.
 * @param speed divides the time of reads
 */
export function offloadTiers(room: OffloadRoom, profile: EngineProfile, blockTokens: number, speed = 1): TierLimits[] {
  const blockBytes = (profile.kvBytesPerToken ?? DEFAULT_KV_BYTES) * blockTokens;
  const names = (["host", "disk", "shared"] as const).filter((name) => (room.gib[name] ?? 0) > 0);
  return names.map((name, i) => {
    const { gbPerS, latencyMs } = profile.tiers?.[name] ?? DEFAULT_LINKS[name];
    return {
      name,
      blocks: Math.floor((room.gib[name]! * GIB) / blockBytes),
      gbPerS: gbPerS * speed,
      latencyMs: latencyMs / speed,
      ...(i === 0 ? { write: room.write } : {}),
      ...(room.blocksStep ? { blocksStep: true } : {}),
    };
  });
}
