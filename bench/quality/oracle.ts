import type { BlockNames, QualityEngine } from "./engine.ts";

/** Decodes are worth so many blocks of prefill. */
const DECODE_BLOCKS = 0.5;

/**
 * An upper reference, no peer: sees the engines' caches and queues as they are, and counts what it has sent and what has not arrived.
 * It takes the engine that has least to compute, this prompt included. It does not look ahead.
 */
export class Oracle {
  readonly #engines: readonly QualityEngine[];
  /** Tokens of requests under way to each engine, by id. */
  readonly #underWay: readonly Map<string, number>[];

  constructor(engines: readonly QualityEngine[]) {
    this.#engines = engines;
    this.#underWay = engines.map(() => new Map());
  }

  choose(request: { readonly id: string; readonly promptTokens: number; readonly blocks: BlockNames }): number {
    let best = 0;
    let bestCost = Number.POSITIVE_INFINITY;
    let bestOwn = 0;
    for (const [i, engine] of this.#engines.entries()) {
      const { blockTokens } = engine.size;
      const own = request.promptTokens - engine.cachedBlocks(request.blocks) * blockTokens;
      let tokens = engine.pendingTokens() + own;
      for (const each of this.#underWay[i]!.values()) tokens += each;
      const cost = tokens / blockTokens + engine.running * DECODE_BLOCKS;
      if (cost >= bestCost) continue;
      best = i;
      bestCost = cost;
      bestOwn = own;
    }
    this.#underWay[best]!.set(request.id, bestOwn);
    return best;
  }

  /** It is in the engine's own queue now. */
  arrived(engine: number, id: string): void {
    this.#underWay[engine]!.delete(id);
  }
}
