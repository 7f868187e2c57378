import type { Match } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import type { CacheUse } from "./output.ts";
import type { EngineProfile } from "./profile.ts";
import { isKeyed } from "./request.ts";
import type { Run } from "./run.ts";
import type { TierMatch, TierStack } from "./tier-stack.ts";

/** What a request can have read instead of computing it. */
export interface ReadPlan {
  /** Is there anything to read? */
  readonly reads: boolean;
  readonly tiers: TierMatch;
  readonly tierTokens: number;
  /** To be read from the prefill engine. */
  readonly transferTokens: number;
}

const TRANSFER = { gbPerS: 10, latencyMs: 2 };

/** Reads keys and values from tiers and from prefill engines: what there is, and how long it takes. */
export class Reader {
  readonly #limits: EngineLimits;
  readonly #tokenBytes: number;
  readonly #tiers: TierStack;
  readonly #gbPerS: number;
  readonly #latencyMs: number;
  /** Transfers into one engine follow each other. */
  #freeAt = Number.NEGATIVE_INFINITY;

  constructor(limits: EngineLimits, profile: EngineProfile, tokenBytes: number, tiers: TierStack) {
    this.#limits = limits;
    this.#tokenBytes = tokenBytes;
    this.#tiers = tiers;
    const link = profile.tiers?.transfer ?? TRANSFER;
    this.#gbPerS = limits.transferGbPerS ?? link.gbPerS;
    this.#latencyMs = limits.transferLatencyMs ?? link.latencyMs;
  }

  /** @param deviceTokens what the device has already */
  plan(run: Run, deviceTokens: number): ReadPlan {
    const { blockTokens, prefixCaching } = this.#limits;
    const { sequence } = run;
    const none = { blocks: 0, reads: [] };
    const tiers = prefixCaching ? this.#tiers.match(sequence, deviceTokens / blockTokens) : none;
    const tierTokens = tiers.blocks * blockTokens;
    // A preempted decode computes its prompt again: the prefill engine has let go of it.
    const wanted = run.request.transfer === true && run.use === undefined;
    const transferTokens = wanted ? Math.max(0, sequence.promptTokens - 1 - deviceTokens - tierTokens) : 0;
    return { reads: tiers.blocks > 0 || transferTokens > 0, tiers, tierTokens, transferTokens };
  }

  /** Start reading. @returns when all is there, and how long steps stand still for it */
  start(at: number, run: Run, plan: ReadPlan): { readonly endsAt: number; readonly stallMs: number } {
    const fetch = this.#tiers.read(at, plan.tiers);
    let endsAt = fetch.endsAt;
    if (plan.transferTokens > 0) {
      const ms = this.#latencyMs + (plan.transferTokens * this.#tokenBytes) / (this.#gbPerS * 1e6);
      this.#freeAt = Math.max(at, this.#freeAt) + ms;
      endsAt = Math.max(endsAt, this.#freeAt);
    }
    if (run.generated === 0) {
      run.fetchMs += fetch.endsAt - at + fetch.stallMs;
      run.transferMs += endsAt - fetch.endsAt;
    }
    return { endsAt, stallMs: fetch.stallMs };
  }

  useOf(run: Run, match: Match, plan: ReadPlan): CacheUse {
    const { promptTokens } = run.sequence;
    const { blockTokens } = this.#limits;
    const cachedTokens = match.tokens + plan.tierTokens;
    const whole = Math.floor(promptTokens / blockTokens) * blockTokens;
    return {
      cachedTokens,
      createdCacheTokens: Math.max(0, whole - cachedTokens),
      ...(isKeyed(run.request) ? { foundBlocks: Math.max(match.blocks, cachedTokens / blockTokens) } : {}),
      ...(this.#tiers.any ? { byTier: tokensByTier(plan.tiers, blockTokens) } : {}),
      ...(run.request.transfer === true ? { transferredTokens: plan.transferTokens } : {}),
    };
  }
}

function tokensByTier({ reads }: TierMatch, blockTokens: number): NonNullable<CacheUse["byTier"]> {
  return Object.fromEntries(reads.map(({ name, blocks }) => [name, blocks * blockTokens]));
}
