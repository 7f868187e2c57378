import { CgnError } from "../../core/errors.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import { GIB } from "../../core/units.ts";
import type { EngineLimits, TierLimits } from "../model/limits.ts";
import type { EngineProfile } from "../model/profile.ts";

/** Tokens of KV cache where the profile does not say how much fits: `cgn sim`'s own default. */
const DEFAULT_CACHE_TOKENS = 131_072;
/** vLLM 0.32's defaults for serving on data-centre GPUs (`max_num_batched_tokens`, `max_num_seqs`). */
export const DEFAULT_BATCHED_TOKENS = 8192;
export const DEFAULT_SEQUENCES = 256;
/** A Llama-3 8B's keys and values in 16 bits: 32 layers × 8 heads × 128 × 2 × 2 bytes. */
const DEFAULT_KV_BYTES = 131_072;
/** Host memory over PCIe 4.0 × 16 as engines reach it, and an NVMe disk; where the profile has no figure. */
const DEFAULT_LINKS = {
  host: { gbPerS: 20, latencyMs: 0.2 },
  disk: { gbPerS: 3, latencyMs: 1 },
} as const;

/** What an engine of the replay is like. */
export interface EngineSetup {
  readonly profile: EngineProfile;
  readonly kvOffload: KvOffload;
  readonly hostGib: number;
  readonly diskGib: number;
  readonly blockTokens: number;
  /** Device blocks; undefined: as many as the profile's memory holds. */
  readonly blocks: number | undefined;
  readonly maxBatchedTokens: number;
  readonly maxSequences: number;
}

/**
 * An engine's limits: its device cache, and behind it the tiers that its `kv_offload` gives it.
 * @throws CgnError BAD_INVOCATION for memory that no tier can use
 */
export function engineLimits(setup: EngineSetup): EngineLimits {
  const { profile, blockTokens } = setup;
  const kvBytesPerToken = profile.kvBytesPerToken ?? DEFAULT_KV_BYTES;
  const tokens = profile.deviceKvBytes === undefined ? DEFAULT_CACHE_TOKENS : profile.deviceKvBytes / kvBytesPerToken;
  const tiers = offloadTiers(setup, kvBytesPerToken * blockTokens);
  const sglang = setup.kvOffload === "hicache";
  return {
    blocks: setup.blocks ?? Math.max(1, Math.floor(tokens / blockTokens)),
    blockTokens,
    maxBatchedTokens: setup.maxBatchedTokens,
    maxSequences: setup.maxSequences,
    prefixCaching: true,
    generatedBlocks: sglang ? "at-finish" : "as-filled",
    publishesWhenIdle: sglang,
    // The replay's trace names no blocks of answers, so a radix tree's leaves are prompts.
    eviction: sglang ? "sglang" : "vllm",
    kvBytesPerToken,
    ...(tiers.length === 0 ? {} : { tiers }),
    ...(profile.tiers?.transfer === undefined
      ? {}
      : { transferGbPerS: profile.tiers.transfer.gbPerS, transferLatencyMs: profile.tiers.transfer.latencyMs }),
  };
}

function offloadTiers(setup: EngineSetup, blockBytes: number): TierLimits[] {
  const { kvOffload, hostGib, diskGib, profile } = setup;
  const keeps = kvOffload === "lmcache" || kvOffload === "hicache" || kvOffload === "kvbm";
  if (!keeps && hostGib + diskGib > 0) {
    const message = `Cannot keep KV blocks in host memory or on disk: kv_offload is ${kvOffload}. Add --kv-offload lmcache, hicache or kvbm`;
    throw new CgnError("BAD_INVOCATION", message, { kvOffload });
  }
  if (!keeps) return [];
  const tier = (name: "host" | "disk", gib: number): TierLimits => ({
    name,
    blocks: Math.floor((gib * GIB) / blockBytes),
    ...(profile.tiers?.[name] ?? DEFAULT_LINKS[name]),
    ...(name === "host" ? { write: "through" as const } : {}),
    // LMCache in vLLM's own process reads while the step waits; the others read beside it.
    ...(kvOffload === "lmcache" ? { blocksStep: true } : {}),
  });
  return [...(hostGib > 0 ? [tier("host", hostGib)] : []), ...(diskGib > 0 ? [tier("disk", diskGib)] : [])];
}
