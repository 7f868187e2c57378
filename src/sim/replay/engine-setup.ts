import { CgnError } from "../../core/errors.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { EngineLimits, TierLimits } from "../model/limits.ts";
import { DEFAULT_KV_BYTES, offloadTiers } from "../model/offload-tiers.ts";
import type { EngineProfile } from "../model/profile.ts";

/** Tokens of KV cache where the profile does not say how much fits: `cgn sim`'s own default. */
const DEFAULT_CACHE_TOKENS = 131_072;
/** vLLM 0.32's defaults for serving on data-centre GPUs (`max_num_batched_tokens`, `max_num_seqs`). */
export const DEFAULT_BATCHED_TOKENS = 8192;
export const DEFAULT_SEQUENCES = 256;

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
  const tiers = tiersOf(setup);
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

function tiersOf(setup: EngineSetup): TierLimits[] {
  const { kvOffload, hostGib, diskGib, profile, blockTokens } = setup;
  const keeps = kvOffload === "lmcache" || kvOffload === "hicache" || kvOffload === "kvbm";
  if (!keeps && hostGib + diskGib > 0) {
    const message = `Cannot keep KV blocks in host memory or on disk: kv_offload is ${kvOffload}. Add --kv-offload lmcache, hicache or kvbm`;
    throw new CgnError("BAD_INVOCATION", message, { kvOffload });
  }
  if (!keeps) return [];
  if (hostGib + diskGib <= 0) {
    const message = `Cannot replay with kv_offload ${kvOffload}: it has no room. Add --host-gib 64 or --disk-gib 500`;
    throw new CgnError("BAD_INVOCATION", message, { kvOffload });
  }
  // LMCache in vLLM's own process reads while the step waits; the others read beside it.
  const room = {
    gib: { host: hostGib, disk: diskGib },
    blocksStep: kvOffload === "lmcache",
    write: "through",
  } as const;
  return offloadTiers(room, profile, blockTokens);
}
