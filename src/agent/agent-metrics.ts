import type { Metrics } from "../telemetry/metrics.ts";
import { type EngineStatus, WORKER_STATES } from "./engine-status.ts";

/** Set the agent's gauges at each scrape; the result ends it and takes the workers off. */
export function countEngines(metrics: Metrics, status: () => readonly EngineStatus[]): () => void {
  // Counters only take what was added since the last scrape.
  const counted = new Map<string, number>();
  const addUpTo = (
    name: "cgn_agent_engine_starts_total" | "cgn_agent_engine_log_dropped_bytes_total",
    worker: string,
    total: number,
  ): void => {
    const key = `${name} ${worker}`;
    const before = counted.get(key) ?? 0;
    // Fewer than before: another keeper counts from the start, after a reload.
    metrics.counter(name, worker).inc(total < before ? total : total - before);
    counted.set(key, total);
  };
  const end = metrics.onScrape(() => {
    const ready = new Map<string, number>();
    for (const { worker, starts, droppedLogBytes } of status()) {
      for (const model of worker.models) {
        ready.set(model, (ready.get(model) ?? 0) + (worker.state === "ready" ? 1 : 0));
      }
      for (const state of WORKER_STATES) {
        metrics.gauge("cgn_agent_engine_state", worker.id, state).set(worker.state === state ? 1 : 0);
      }
      addUpTo("cgn_agent_engine_starts_total", worker.id, starts);
      addUpTo("cgn_agent_engine_log_dropped_bytes_total", worker.id, droppedLogBytes);
    }
    for (const [model, count] of ready) metrics.gauge("cgn_agent_engine_ready", model).set(count);
  });
  return () => {
    end();
    for (const { worker } of status()) metrics.forget("worker", worker.id, "cgn_agent_");
  };
}
