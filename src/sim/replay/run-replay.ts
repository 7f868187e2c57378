import { Gaps } from "../model/gaps.ts";
import { type Distribution, type EngineFigures, type Measures, SERIES, type TimeParts, variation } from "./measures.ts";
import type { Trace } from "./read-trace.ts";
import { Replay } from "./replay.ts";
import type { ReplayOptions } from "./replay-options.ts";

/** What `cgn replay --json` prints for one run. Times in milliseconds of virtual time where not said otherwise. */
export interface ReplayFigures {
  readonly trace: string;
  readonly requests: number;
  readonly policy: string;
  readonly routers: number;
  readonly engines: number;
  /** Tokens. */
  readonly blockSize: number;
  readonly seed: number;
  /** Leading blocks of prompts that their engine held, in its device memory or a tier, over all blocks of answered prompts. */
  readonly hitRate: number;
  /** The same for one cache without limits, over all of the trace's blocks. */
  readonly hitRateCeiling: number;
  readonly ttftMs: Distribution;
  /** Times between two tokens of an answer. */
  readonly itlMs: Distribution;
  readonly e2eMs: Distribution;
  readonly queueMs: Distribution;
  /** Variation (standard deviation over mean) of the tokens that engines computed. */
  readonly loadCv: number;
  /** Time in which engines worked, times the GPUs of each. */
  readonly gpuSeconds: number;
  readonly completed: number;
  readonly rejected: number;
  /** Cut off by an engine's failure in midst of the answer. */
  readonly failed: number;
  /** Sent to another engine after one failed. */
  readonly retried: number;
  readonly virtualSeconds: number;
  readonly wallSeconds: number;
  readonly profile: string;
  readonly kvOffload: string;
  readonly knowledge: string;
  /** Share of prompt tokens that need not be computed, and of them by tier (what is not in a tier was on the device). */
  readonly cachedTokenShare: number;
  readonly tierTokens: Readonly<Record<string, number>>;
  /** Where the mean request's time went. */
  readonly meanTimeMs: TimeParts;
  /** Share of all blocks that the router believed to be there and were not, and the reverse. */
  readonly overPredicted: number;
  readonly underPredicted: number;
  readonly preemptions: number;
  readonly outputTokensPerSecond: number;
  readonly perEngine: readonly (EngineFigures & {
    readonly hitRate: number;
    readonly computedTokens: number;
    readonly busySeconds: number;
  })[];
  readonly notes: readonly string[];
}

/** One run: its figures, and what the report's plots need. */
export interface ReplayRun {
  readonly label: string;
  readonly figures: ReplayFigures;
  readonly plots: ReplayPlots;
}

export interface ReplayPlots {
  /** Width of a bin of the series, seconds. */
  readonly binSeconds: number;
  /** [bins] share of blocks found, and mean TTFT in ms, by arrival; null where nothing arrived. */
  readonly hitRate: readonly (number | null)[];
  readonly ttftMs: readonly (number | null)[];
  /** [engines][bins] mean requests in flight. */
  readonly inFlight: readonly (readonly (number | null)[])[];
  /** TTFT in ms at 0, 0.5, …, 100 % of requests. */
  readonly ttftQuantiles: readonly number[];
}

export interface RunLabels {
  readonly kvOffload: string;
  readonly label: string;
  /** Wall clock in milliseconds. */
  readonly wallNow: () => number;
  readonly onProgress?: (share: number) => void;
  /** Asked before each request: true ends the run where it is, with requests that were not answered. */
  readonly giveUp?: (replay: Replay) => boolean;
}

/**
 * Play a trace through.
 * @throws CgnError TRACE_INVALID
 */
export async function runReplay(trace: Trace, options: ReplayOptions, labels: RunLabels): Promise<ReplayRun> {
  const started = labels.wallNow();
  const replay = new Replay(options);
  if (await playAll(trace, replay, labels)) replay.drain();
  const wallSeconds = (labels.wallNow() - started) / 1000;
  return {
    label: labels.label,
    figures: figuresOf(trace, options, replay, labels.kvOffload, wallSeconds),
    plots: plotsOf(replay.measures),
  };
}

/** False: given up. */
async function playAll(trace: Trace, replay: Replay, labels: RunLabels): Promise<boolean> {
  for await (const batch of trace.requests(labels.onProgress)) {
    for (const request of batch) {
      if (labels.giveUp?.(replay) === true) return false;
      replay.arrive(request);
    }
  }
  return true;
}

function figuresOf(
  trace: Trace,
  options: ReplayOptions,
  replay: Replay,
  kvOffload: string,
  wallSeconds: number,
): ReplayFigures {
  const m = replay.measures;
  const gaps = new Gaps();
  for (const { model } of replay.engines) gaps.merge(model.gaps);
  const perEngine = replay.engines.map((engine, i) => {
    const { counters } = engine.model;
    const figures = m.engines[i]!;
    return {
      ...figures,
      hitRate: share(figures.foundBlocks, figures.blocks),
      computedTokens: engine.tokens + counters.computedTokens + counters.generatedTokens,
      busySeconds: (engine.busyMs + counters.busyMs) / 1000,
    };
  });
  const virtualSeconds = replay.now / 1000;
  const preemptions = replay.engines.reduce((sum, e) => sum + e.preemptions + e.model.counters.preemptions, 0);
  return {
    trace: trace.name,
    requests: m.requests,
    policy: options.policy,
    routers: options.routers,
    engines: options.engines,
    blockSize: trace.blockTokens,
    seed: options.seed,
    hitRate: share(m.foundBlocks, m.blocks),
    hitRateCeiling: m.ceiling.hitRate,
    ttftMs: m.ttft.distribution(),
    itlMs: {
      mean: gaps.meanMs,
      p50: gaps.percentileMs(0.5),
      p90: gaps.percentileMs(0.9),
      p99: gaps.percentileMs(0.99),
    },
    e2eMs: m.e2e.distribution(),
    queueMs: m.queue.distribution(),
    loadCv: variation(perEngine.map(({ computedTokens }) => computedTokens)),
    gpuSeconds: options.gpusPerEngine * perEngine.reduce((sum, { busySeconds }) => sum + busySeconds, 0),
    completed: m.ttft.length,
    rejected: m.rejected,
    failed: m.failed,
    retried: m.retried,
    virtualSeconds,
    wallSeconds,
    profile: options.profile.name,
    kvOffload,
    knowledge: options.knowledge,
    cachedTokenShare: share(m.cachedTokens, m.promptTokens),
    tierTokens: m.tierTokens,
    meanTimeMs: m.meanParts(),
    overPredicted: share(m.overPredicted, m.blocks),
    underPredicted: share(m.underPredicted, m.blocks),
    preemptions,
    outputTokensPerSecond: virtualSeconds === 0 ? 0 : m.outputTokens / virtualSeconds,
    perEngine,
    notes: m.tooLong === 0 ? trace.notes : [...trace.notes, tooLongNote(m.tooLong, options)],
  };
}

function tooLongNote(count: number, { limits }: ReplayOptions): string {
  const tokens = limits.blocks * limits.blockTokens;
  return `${count} requests were refused since prompt and answer are longer than an engine's cache of ${tokens} tokens (--blocks, --profile)`;
}

const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

function plotsOf(m: Measures): ReplayPlots {
  const { series } = m;
  const over = (top: number, bottom: number): (number | null)[] => {
    const whole = series.column(bottom);
    return Array.from(series.column(top), (sum, i) => (whole[i] === 0 ? null : sum / whole[i]!));
  };
  return {
    binSeconds: series.widthMs / 1000,
    hitRate: over(SERIES.found, SERIES.blocks),
    ttftMs: over(SERIES.ttftMs, SERIES.answered),
    inFlight: m.engines.map((_, i) => over(SERIES.engines + i, SERIES.requests)),
    ttftQuantiles: Array.from({ length: 201 }, (_, i) => m.ttft.at(i / 200)),
  };
}
