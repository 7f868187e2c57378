import { Ceiling } from "./bits.ts";
import { type Distribution, Sample } from "./sample.ts";
import { TimeSeries } from "./time-series.ts";

/** Where a request's time went, in milliseconds; the sum is its whole time. */
export interface TimeParts {
  /** HTTP and tokenizer, by the profile. */
  overhead: number;
  /** Before the router let it in, and in the engine's queue. */
  queue: number;
  fetch: number;
  prefill: number;
  transfer: number;
  decode: number;
}

/** What came of a request that was answered whole. */
export interface Answered {
  readonly arrivedAt: number;
  readonly firstAt: number;
  readonly finishedAt: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly engine: number;
  /** Blocks of the prompt, and how many leading ones its engine held. */
  readonly blocks: number;
  readonly foundBlocks: number;
  readonly predictedBlocks: number;
  readonly cachedTokens: number;
  readonly byTier: Readonly<Partial<Record<string, number>>> | undefined;
  readonly parts: TimeParts;
}

export interface EngineFigures {
  requests: number;
  blocks: number;
  foundBlocks: number;
}

/** Columns of the series over arrival times; then one for each engine's requests in flight. */
export const SERIES = { requests: 0, blocks: 1, found: 2, ttftMs: 3, answered: 4, engines: 5 } as const;

/** All that is measured in one run. */
export class Measures {
  readonly ceiling = new Ceiling();
  readonly ttft = new Sample();
  readonly itl = new Sample();
  readonly e2e = new Sample();
  readonly queue = new Sample();
  readonly parts: TimeParts = { overhead: 0, queue: 0, fetch: 0, prefill: 0, transfer: 0, decode: 0 };
  readonly engines: readonly EngineFigures[];
  readonly series: TimeSeries;
  readonly tierTokens: Record<string, number> = {};
  requests = 0;
  rejected = 0;
  /** Of those: longer than an engine's whole cache. */
  tooLong = 0;
  failed = 0;
  retried = 0;
  cachedTokens = 0;
  promptTokens = 0;
  outputTokens = 0;
  blocks = 0;
  foundBlocks = 0;
  /** Blocks predicted but not there, and there but not predicted. */
  overPredicted = 0;
  underPredicted = 0;

  constructor(engines: number) {
    this.engines = Array.from({ length: engines }, () => ({ requests: 0, blocks: 0, foundBlocks: 0 }));
    this.series = new TimeSeries(SERIES.engines + engines);
  }

  arrived(at: number, blocks: readonly number[], inFlight: readonly number[]): void {
    this.requests++;
    this.ceiling.count(blocks);
    this.series.add(at, SERIES.requests, 1);
    for (let i = 0; i < inFlight.length; i++) this.series.add(at, SERIES.engines + i, inFlight[i]!);
  }

  answered(a: Answered): void {
    this.ttft.add(a.firstAt - a.arrivedAt);
    this.e2e.add(a.finishedAt - a.arrivedAt);
    this.queue.add(a.parts.queue);
    if (a.outputTokens > 1) this.itl.add((a.finishedAt - a.firstAt) / (a.outputTokens - 1));
    for (const part in this.parts) this.parts[part as keyof TimeParts] += a.parts[part as keyof TimeParts];
    this.cachedTokens += a.cachedTokens;
    this.promptTokens += a.promptTokens;
    this.outputTokens += a.outputTokens;
    this.blocks += a.blocks;
    this.foundBlocks += a.foundBlocks;
    this.overPredicted += Math.max(0, a.predictedBlocks - a.foundBlocks);
    this.underPredicted += Math.max(0, a.foundBlocks - a.predictedBlocks);
    for (const tier in a.byTier) this.tierTokens[tier] = (this.tierTokens[tier] ?? 0) + (a.byTier[tier] ?? 0);
    const engine = this.engines[a.engine]!;
    engine.requests++;
    engine.blocks += a.blocks;
    engine.foundBlocks += a.foundBlocks;
    this.series.add(a.arrivedAt, SERIES.blocks, a.blocks);
    this.series.add(a.arrivedAt, SERIES.found, a.foundBlocks);
    this.series.add(a.arrivedAt, SERIES.ttftMs, a.firstAt - a.arrivedAt);
    this.series.add(a.arrivedAt, SERIES.answered, 1);
  }

  /** Mean parts of an answered request. */
  meanParts(): TimeParts {
    const count = Math.max(1, this.ttft.length);
    const { overhead, queue, fetch, prefill, transfer, decode } = this.parts;
    const [o, q, f, p, t, d] = [overhead, queue, fetch, prefill, transfer, decode].map((sum) => sum / count);
    return { overhead: o!, queue: q!, fetch: f!, prefill: p!, transfer: t!, decode: d! };
  }
}

/** Standard deviation over mean, 0 where the mean is. */
export function variation(values: readonly number[]): number {
  const mean = values.reduce((sum, v) => sum + v, 0) / Math.max(1, values.length);
  if (mean === 0) return 0;
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length) / mean;
}

export type { Distribution };
