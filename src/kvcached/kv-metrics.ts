import type { WorkerId } from "../core/ids.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import type { PredictionVerdict } from "../core/prefix-knowledge.ts";
import type { IndexStats } from "../kvindex/prefix-index.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** What is counted as it happens; the rest is read at each scrape. */
export interface KvMetrics {
  /** One look-up took so many milliseconds. */
  lookup(ms: number): void;
  events(worker: WorkerId, batch: KvEventBatch): void;
  /** A prediction was compared with what the engine reported. */
  judged(worker: WorkerId, result: PredictionVerdict["result"]): void;
  forget(worker: WorkerId): void;
  close(): void;
}

/** Counters that a source keeps itself: shown as they grow. */
const SOURCE_COUNTERS = {
  gaps: "cgn_kvcached_event_gaps_total",
  malformed: "cgn_kvcached_events_malformed_total",
  restarts: "cgn_kvcached_source_restarts_total",
} as const;

/** Export `cgn_kvcached_*`. */
export function exportKvMetrics(
  metrics: Metrics,
  stats: () => IndexStats,
  sources: () => readonly KvSourceStatus[],
  watchers: () => number,
): KvMetrics {
  const seconds = metrics.histogram("cgn_kvcached_lookup_seconds");
  /** Last value of each counter that somebody else keeps. */
  const shown = new Map<string, number>();
  const grown = (key: string, value: number): number => {
    const by = Math.max(0, value - (shown.get(key) ?? 0));
    shown.set(key, value);
    return by;
  };
  const close = metrics.onScrape(() => {
    const s = stats();
    metrics.gauge("cgn_kvcached_blocks", "all").set(s.blocks);
    for (const [tier, blocks] of Object.entries(s.blocksByTier)) metrics.gauge("cgn_kvcached_blocks", tier).set(blocks);
    metrics.gauge("cgn_kvcached_watchers").set(watchers());
    metrics.gauge("cgn_kvcached_index_bytes").set(s.bytes);
    metrics.gauge("cgn_kvcached_index_cap_bytes").set(s.capBytes);
    metrics.gauge("cgn_kvcached_index_runs").set(s.runs);
    metrics.gauge("cgn_kvcached_workers").set(s.workers);
    metrics.counter("cgn_kvcached_index_dropped_blocks_total").inc(grown("dropped", s.evictedBlocks));
    metrics.counter("cgn_kvcached_lookups_total", "hit").inc(grown("hit", s.hits));
    metrics.counter("cgn_kvcached_lookups_total", "miss").inc(grown("miss", s.lookups - s.hits));
    for (const source of sources()) {
      metrics.gauge("cgn_kvcached_source_live", source.worker).set(source.state === "live" ? 1 : 0);
      for (const [field, name] of Object.entries(SOURCE_COUNTERS) as [
        keyof typeof SOURCE_COUNTERS,
        (typeof SOURCE_COUNTERS)[keyof typeof SOURCE_COUNTERS],
      ][]) {
        metrics.counter(name, source.worker).inc(grown(`${source.worker}/${field}`, source[field]));
      }
    }
  });
  return {
    lookup: (ms) => seconds.observe(ms / 1000),
    events(worker, batch) {
      for (const event of batch.events) metrics.counter("cgn_kvcached_events_total", worker, event.type).inc();
    },
    judged: (worker, result) => metrics.counter("cgn_kvcached_predictions_total", worker, result).inc(),
    forget(worker) {
      metrics.forget("worker", worker, "cgn_kvcached_");
      for (const field of Object.keys(SOURCE_COUNTERS)) shown.delete(`${worker}/${field}`);
    },
    close,
  };
}
