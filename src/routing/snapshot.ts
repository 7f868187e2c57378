import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import type { EngineFigures } from "../core/worker.ts";
import type { Rates, WorkerSnapshot } from "./decision.ts";
import { type LoadView, tokensAhead, type WorkerLoad } from "./load.ts";

/** One worker and one request, as they are known at the moment of the choice. */
export interface SnapshotParts {
  readonly id: WorkerId;
  /** What this router has there, and what others told of theirs. */
  readonly load: WorkerLoad;
  readonly others: readonly LoadView[];
  readonly rates: Rates;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly tier: Tier;
  readonly nowMs: number;
  readonly capacity: number | undefined;
  readonly figures?: EngineFigures | undefined;
}

/** What a policy sees of one worker. The live router and the simulator's make it here. */
export function workerSnapshot(p: SnapshotParts): WorkerSnapshot {
  const { load, others, rates } = p;
  let { inFlight, streams } = load;
  for (const other of others) {
    inFlight += other.inFlight;
    streams += other.streams;
  }
  const views = others.length === 0 ? [load] : [load, ...others];
  const snapshot = {
    id: p.id,
    inFlight,
    queuedTokens: tokensAhead(views, rates.perTokenMs, p.nowMs),
    streams,
    cachedTokens: p.cachedTokens,
    uncachedTokens: Math.max(0, p.promptTokens - p.cachedTokens),
    tier: p.tier,
    rates,
    placedTokens: load.placed(p.nowMs),
    figures: p.figures,
  };
  return p.capacity === undefined ? snapshot : { ...snapshot, capacity: p.capacity };
}
