import { Counter, collectDefaultMetrics, Gauge, type Metric, Registry } from "prom-client";
import { BucketHistogram } from "./bucket-histogram.ts";
import type { CounterCell, GaugeCell, HistogramCell } from "./cells.ts";
import { METRICS, type MetricName, type MetricRow } from "./metric-table.ts";
import { type Pending, pendingCounter, pendingGauge } from "./pending-cells.ts";

type Rows = typeof METRICS;
type NameOf<T extends MetricRow["type"]> = {
  [N in MetricName]: Rows[N]["type"] extends T ? N : never;
}[MetricName];

type Strings<T extends readonly unknown[]> = { [K in keyof T]: string };

/** One string for each label, in the table's order. */
export type LabelValues<N extends MetricName> = Strings<Rows[N]["labels"]>;

/**
 * The metrics of one process. A cell is made once for its label values and kept, so asking again is a map look-up; keep the
 * cell itself where it is used for each request. Cells add up by themselves; prom-client hears of it at the scrape.
 */
export interface Metrics {
  counter<N extends NameOf<"counter">>(name: N, ...labels: LabelValues<N>): CounterCell;
  gauge<N extends NameOf<"gauge">>(name: N, ...labels: LabelValues<N>): GaugeCell;
  histogram<N extends NameOf<"histogram">>(name: N, ...labels: LabelValues<N>): HistogramCell;
  /** Called before each scrape, to set gauges from what is there; the result ends it. */
  onScrape(fill: () => void): () => void;
  /**
   * Drop all series where `label` has `value`: a worker that is gone must not stay on dashboards.
   * @param prefix only of metrics whose name begins so: parts of one process forget a worker at different times
   */
  forget(label: string, value: string, prefix: string): void;
  /** The exposition text. */
  text(): Promise<string>;
  readonly contentType: string;
}

/** Series of one metric above this number share the label value `other`: names that clients choose cannot fill the memory. */
export const MAX_SERIES = 2_000;

interface Family {
  readonly metric: Counter<string> | Gauge<string> | BucketHistogram;
  readonly cells: Map<
    string,
    { readonly cell: CounterCell | GaugeCell | HistogramCell; readonly labels: readonly string[] }
  >;
}

/** Make the metrics of this process. `processMetrics` adds Node's own (memory, event loop lag, CPU); default true. */
export function createMetrics(options: { readonly processMetrics?: boolean } = {}): Metrics {
  const registry = new Registry();
  if (options.processMetrics !== false) collectDefaultMetrics({ register: registry });
  const families = new Map<string, Family>();
  const fills = new Set<() => void>();

  const cellOf = (name: MetricName, labels: readonly string[]): unknown => {
    const family = families.get(name) ?? declare(families, registry, name);
    const key = labels.length === 1 ? labels[0]! : labels.join("\0");
    const known = family.cells.get(key);
    if (known !== undefined) return known.cell;
    const bounded = family.cells.size < MAX_SERIES ? labels : labels.map(() => "other");
    // Beyond the limit all share one cell.
    const shared = bounded === labels ? key : OTHER;
    const cell = family.cells.get(shared)?.cell ?? makeCell(family.metric, bounded);
    family.cells.set(shared, { cell, labels: bounded });
    return cell;
  };

  return {
    counter: (name, ...labels) => cellOf(name, labels) as CounterCell,
    gauge: (name, ...labels) => cellOf(name, labels) as GaugeCell,
    histogram: (name, ...labels) => cellOf(name, labels) as HistogramCell,
    onScrape(fill) {
      fills.add(fill);
      return () => void fills.delete(fill);
    },
    forget: (label, value, prefix) => forget(families, label, value, prefix),
    async text() {
      for (const fill of fills) fill();
      for (const { cells } of families.values()) {
        for (const { cell } of cells.values()) if ("flush" in cell) (cell as Pending).flush();
      }
      return registry.metrics();
    },
    contentType: registry.contentType,
  };
}

/** Key of the series that names beyond the limit share; no label value has this character. */
const OTHER = "\u0001";

function makeCell(metric: Family["metric"], labels: readonly string[]): CounterCell | GaugeCell | HistogramCell {
  if (metric instanceof Counter) return pendingCounter(metric.labels(...labels));
  return metric instanceof Gauge ? pendingGauge(metric.labels(...labels)) : metric.labels(...labels);
}

function declare(families: Map<string, Family>, registry: Registry, name: MetricName): Family {
  const row: MetricRow = METRICS[name];
  const shape = { name, help: row.help, labelNames: row.labels, registers: [registry] };
  const metric =
    row.type === "counter"
      ? new Counter<string>(shape)
      : row.type === "gauge"
        ? new Gauge<string>(shape)
        : new BucketHistogram(name, row.help, row.labels, row.buckets ?? []);
  if (metric instanceof BucketHistogram) registry.registerMetric(metric as unknown as Metric<string>);
  const family: Family = { metric, cells: new Map() };
  families.set(name, family);
  return family;
}

function forget(families: ReadonlyMap<string, Family>, label: string, value: string, prefix: string): void {
  for (const [name, family] of families) {
    if (!name.startsWith(prefix)) continue;
    const at = (METRICS[name as MetricName].labels as readonly string[]).indexOf(label);
    if (at < 0) continue;
    for (const [key, { labels }] of family.cells) {
      if (labels[at] !== value) continue;
      family.metric.remove(...labels);
      family.cells.delete(key);
    }
  }
}

/** docs/metrics.md, printed from the table. */
export function metricsMarkdown(): string {
  const rows = Object.entries(METRICS).map(([name, row]: [string, MetricRow]) => {
    const labels = row.labels.map((label) => `\`${label}\``).join(", ") || "–";
    return `| \`${name}\` | ${row.type} | ${labels} | ${row.help} |`;
  });
  return [
    "# Metrics",
    "",
    "Printed from `src/telemetry/metric-table.ts` by `npm run docs`; do not edit.",
    "",
    "Prometheus text on `/metrics` of each part's admin port. Node's own metrics (`process_*`, `nodejs_*`) come with them.",
    "",
    "| name | type | labels | meaning |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}
