import type { WorkerId } from "../core/ids.ts";
import { KV_ALARM_CODES, type KvSourceStatus } from "../core/kv-status.ts";
import type { Metrics } from "../telemetry/metrics.ts";

export interface TruthMetrics {
  forget(worker: WorkerId): void;
  close(): void;
}

/** Export alarms, predicted and reported tokens, and what became of the canonicity check. */
export function exportTruthMetrics(metrics: Metrics, sources: () => readonly KvSourceStatus[]): TruthMetrics {
  /** Last value of each counter that somebody else keeps. */
  const shown = new Map<WorkerId, Map<string, number>>();
  const close = metrics.onScrape(() => {
    for (const source of sources()) {
      const { worker, alarms = [], canonicity } = source;
      const of = shown.get(worker) ?? new Map<string, number>();
      shown.set(worker, of);
      const grown = (key: string, value: number): number => {
        const by = Math.max(0, value - (of.get(key) ?? 0));
        of.set(key, value);
        return by;
      };
      for (const code of KV_ALARM_CODES) {
        const stands = alarms.some((alarm) => alarm.code === code);
        metrics.gauge("cgn_kvcached_alarm", worker, code).set(stands ? 1 : 0);
      }
      metrics.counter("cgn_kvcached_predicted_tokens_total", worker).inc(grown("predicted", source.predictedTokens));
      metrics.counter("cgn_kvcached_reported_tokens_total", worker).inc(grown("reported", source.reportedTokens));
      if (canonicity === undefined) continue;
      const { checkedTokens, skippedTokens, sentTokens, uncountedBlocks } = canonicity;
      for (const [result, value] of Object.entries({
        checked: checkedTokens,
        skipped: skippedTokens,
        sent: sentTokens,
      })) {
        metrics.counter("cgn_kvcached_canonicity_tokens_total", worker, result).inc(grown(result, value));
      }
      metrics.counter("cgn_kvcached_uncounted_blocks_total", worker).inc(grown("uncounted", uncountedBlocks));
    }
  });
  return { forget: (worker) => void shown.delete(worker), close };
}
