import { describe, expect, it } from "vitest";
import { METRICS, type MetricRow } from "./metric-table.ts";
import { createMetrics, MAX_SERIES, metricsMarkdown } from "./metrics.ts";

describe("createMetrics()", () => {
  it("counts, sets and observes by label values in the table's order", async () => {
    const metrics = createMetrics({ processMetrics: false });
    metrics.counter("cgn_router_requests_total", "m", "alice", "ok").inc();
    metrics.counter("cgn_router_requests_total", "m", "alice", "ok").inc(2);
    metrics.gauge("cgn_kvcached_blocks", "device").set(5);
    metrics.histogram("cgn_kvcached_lookup_seconds").observe(2e-6);
    const text = await metrics.text();
    expect(text).toContain('cgn_router_requests_total{model="m",subject="alice",outcome="ok"} 3');
    expect(text).toContain('cgn_kvcached_blocks{tier="device"} 5');
    expect(text).toContain('cgn_kvcached_lookup_seconds_bucket{le="0.000005"} 1');
  });

  it("fills gauges at the scrape and forgets a worker that is gone", async () => {
    const metrics = createMetrics({ processMetrics: false });
    const end = metrics.onScrape(() => metrics.gauge("cgn_router_worker_inflight", "n/e0").set(3));
    expect(await metrics.text()).toContain('cgn_router_worker_inflight{worker="n/e0"} 3');
    end();
    // A kvcached that forgot an engine which was down took the agent's and the router's counters with it.
    metrics.forget("worker", "n/e0", "cgn_kvcached_");
    expect(await metrics.text()).toContain("n/e0");
    metrics.forget("worker", "n/e0", "cgn_router_");
    expect(await metrics.text()).not.toContain("n/e0");
  });

  it("folds series above the limit into one", async () => {
    const metrics = createMetrics({ processMetrics: false });
    for (let i = 0; i < MAX_SERIES + 10; i++) metrics.counter("cgn_router_client_left_total", `m${i}`).inc();
    expect(await metrics.text()).toContain('cgn_router_client_left_total{model="other"} 10');
  });
});

describe("METRICS", () => {
  it("keeps the names and labels that stand on dashboards already", () => {
    const labels = (name: keyof typeof METRICS): string => METRICS[name].labels.join(",");
    expect(labels("cgn_router_requests_total")).toBe("model,subject,outcome");
    expect(labels("cgn_router_routing_decision_seconds")).toBe("");
    expect(labels("cgn_router_admission_inflight")).toBe("model,role");
    expect(labels("cgn_router_admission_rejected_total")).toBe("model,reason");
    expect(labels("cgn_router_cache_hit_ratio")).toBe("model");
    expect(labels("cgn_agent_engine_ready")).toBe("model");
    expect(labels("cgn_kvcached_lookup_seconds")).toBe("");
    expect(labels("cgn_kvcached_blocks")).toBe("tier");
  });

  it("gives buckets to histograms only, ascending, and a unit in each name", () => {
    for (const [name, row] of Object.entries(METRICS) as [string, MetricRow][]) {
      expect(row.buckets !== undefined, name).toBe(row.type === "histogram");
      expect([...(row.buckets ?? [])].sort((a, b) => a - b)).toEqual(row.buckets ?? []);
      if (row.type === "counter") expect(name).toMatch(/_total$/);
    }
  });
});

describe("metricsMarkdown()", () => {
  it("has a row for each metric", () => {
    for (const name of Object.keys(METRICS)) expect(metricsMarkdown()).toContain(`| \`${name}\` |`);
  });
});
