import { Sample } from "../../src/sim/replay/sample.ts";
import type { EngineEntry } from "./engine.ts";

/** What a run came to. TTFT in milliseconds from a request's arrival at its engine. */
export interface QualityFigures {
  readonly answered: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  /** Share of the prompts' blocks that their engine held. */
  readonly hitRate: number;
  /** [engines] requests. */
  readonly perEngine: readonly number[];
}

/** Figures from what the engines wrote down. [engines][requests] */
export function qualityFigures(engines: readonly (readonly EngineEntry[])[]): QualityFigures {
  const ttft = new Sample();
  let blocks = 0;
  let cached = 0;
  for (const entries of engines) {
    for (const entry of entries) {
      if (entry.ttftMs !== undefined) ttft.add(entry.ttftMs);
      blocks += entry.blocks;
      cached += entry.cachedBlocks;
    }
  }
  return {
    answered: ttft.length,
    ...ttft.distribution(),
    hitRate: blocks === 0 ? 0 : cached / blocks,
    perEngine: engines.map(({ length }) => length),
  };
}
