import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { METRICS, type MetricName, type MetricRow } from "./metric-table.ts";

type Rows = typeof METRICS;
type NameOf<T extends MetricRow["type"]> = {
  [N in MetricName]: Rows[N]["type"] extends T ? N : never;
}[MetricName];

type Strings<T extends readonly unknown[]> = { [K in keyof T]: string };

/** One string for each label, in the table's order. */
export type LabelValues<N extends MetricName> = Strings<Rows[N]["labels"]>;

export interface CounterCell {
  /** Default 1; must not be negative. */
  inc(by?: number): void;
}

export interface GaugeCell {
  set(value: number): void;
  inc(by?: number): void;
  dec(by?: number): void;
}

export interface HistogramCell {
  observe(value: number): void;
}

/**
 * The metrics of one process. A cell is made once for its label values and kept, so asking again is a map look-up; keep the
 * cell itself where it is used for each request (an `inc` on a kept cell costs 0.25 µs).
 */
export interface Metrics {
  counter<N extends NameOf<"counter">>(name: N, ...labels: LabelValues<N>): CounterCell;
  gauge<N extends NameOf<"gauge">>(name: N, ...labels: LabelValues<N>): GaugeCell;
  histogram<N extends NameOf<"histogram">>(name: N, ...labels: LabelValues<N>): HistogramCell;
  /** Called before each scrape, to set gauges from what is there; the result ends it. */
  onScrape(fill: () => void): () => void;
  /** Drop all series where `label` has `value`: a worker that is gone must not stay on dashboards. */
  forget(label: string, value: string): void;
  /** The exposition text. */
  text(): Promise<string>;
  readonly contentType: string;
}

/** Series of one metric above this number share the label value `other`: names that clients choose cannot fill the memory. */
export const MAX_SERIES = 2_000;

interface Family {
  readonly metric: Counter<string> | Gauge<string> | Histogram<string>;
  readonly cells: Map<string, { readonly cell: unknown; readonly labels: readonly string[] }>;
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
    const cell = labels.length === 0 ? family.metric : family.metric.labels(...bounded);
    // Beyond the limit the cell is not kept: prom-client finds the `other` series again by its labels.
    if (family.cells.size < MAX_SERIES) family.cells.set(key, { cell, labels });
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
    forget: (label, value) => forget(families, label, value),
    async text() {
      for (const fill of fills) fill();
      return registry.metrics();
    },
    contentType: registry.contentType,
  };
}

function declare(families: Map<string, Family>, registry: Registry, name: MetricName): Family {
  const row: MetricRow = METRICS[name];
  const shape = { name, help: row.help, labelNames: row.labels, registers: [registry] };
  const metric =
    row.type === "counter"
      ? new Counter<string>(shape)
      : row.type === "gauge"
        ? new Gauge<string>(shape)
        : new Histogram<string>({ ...shape, buckets: [...(row.buckets ?? [])] });
  const family: Family = { metric, cells: new Map() };
  families.set(name, family);
  return family;
}

function forget(families: ReadonlyMap<string, Family>, label: string, value: string): void {
  for (const [name, family] of families) {
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
    "Printed from `src/telemetry/metric-table.ts` by `npm run generate`; do not edit.",
    "",
    "Prometheus text on `/metrics` of each part's admin port. Node's own metrics (`process_*`, `nodejs_*`) come with them.",
    "",
    "| name | type | labels | meaning |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}
