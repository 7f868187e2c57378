import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { METRICS, type MetricRow } from "../src/telemetry/metric-table.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const ROWS: Readonly<Record<string, MetricRow>> = METRICS;
const OF_NODE = await createMetrics().text();

interface Used {
  readonly where: string;
  readonly expr: string;
}

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly id: number;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const dashboard = JSON.parse(read("deploy/grafana/cgn.json")) as { readonly panels: readonly Panel[] };
const rules = parse(read("deploy/prometheus/cgn-rules.yml")) as {
  readonly groups: readonly {
    readonly rules: readonly { alert?: string; record?: string; expr: string; annotations?: { summary: string } }[];
  }[];
};

const used: readonly Used[] = [
  ...dashboard.panels.flatMap((p) => (p.targets ?? []).map(({ expr }) => ({ where: p.title, expr }))),
  ...rules.groups.flatMap((g) => g.rules.map((r) => ({ where: r.alert ?? r.record ?? "", expr: r.expr }))),
];

/** The row of a series: a histogram has three names. */
function rowOf(series: string): { readonly row: MetricRow; readonly isBucket: boolean } | undefined {
  if (ROWS[series] !== undefined && ROWS[series].type !== "histogram") return { row: ROWS[series], isBucket: false };
  const [, base = "", part = ""] = /^(.*)_(bucket|sum|count)$/.exec(series) ?? [];
  const row = ROWS[base];
  return row?.type === "histogram" ? { row, isBucket: part === "bucket" } : undefined;
}

describe.each(used)("$where", ({ expr }) => {
  const selectors = [...expr.matchAll(/\b((?:cgn|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)];

  it("asks for metrics that there are, by labels that they have", () => {
    expect(selectors.length).toBeGreaterThan(0);
    for (const [, series = "", inner = ""] of selectors) {
      if (!series.startsWith("cgn_")) {
        expect(OF_NODE, series).toMatch(new RegExp(`^# TYPE ${series} `, "m"));
        continue;
      }
      const found = rowOf(series);
      expect(found, series).toBeDefined();
      const labels = [...(found?.row.labels ?? []), ...(found?.isBucket ? ["le"] : [])];
      for (const [, label = ""] of inner.matchAll(/(\w+)\s*[=!]~?/g))
        expect(labels, `${series}{${label}}`).toContain(label);
    }
  });

  it("sums by labels that some of its metrics have", () => {
    const there = new Set(
      selectors.flatMap(([, series = ""]) => ["le", "instance", ...(rowOf(series)?.row.labels ?? [])]),
    );
    for (const [, list = ""] of expr.matchAll(/\bby \(([^)]*)\)/g))
      for (const label of list.split(",")) expect([...there]).toContain(label.trim());
  });

  it("rates are of what only grows", () => {
    for (const [, series = ""] of expr.matchAll(/\b(?:rate|increase)\((\w+)/g))
      expect(rowOf(series)?.row.type ?? "process", series).not.toBe("gauge");
  });
});

describe("deploy/prometheus/cgn-rules.yml", () => {
  it("has alerts of which docs/observability.md says what to do, and no others stand there", () => {
    const alerts = rules.groups.flatMap((g) => g.rules.flatMap(({ alert }) => alert ?? [])).sort();
    const [, table = ""] = read("docs/observability.md").split("## Alerts");
    const told = [...table.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell = ""]) => cell.match(/Cgn\w+/g) ?? []).sort();
    expect(told).toEqual(alerts);
  });
});

describe("deploy/grafana/cgn.json", () => {
  it("has panels with ids of their own that do not lie upon each other", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x}/${y}`), title).toBe(false);
          taken.add(`${x}/${y}`);
        }
    }
  });

  it("names in legends only labels of its expressions", () => {
    for (const { title, targets = [] } of dashboard.panels)
      for (const { expr, legendFormat } of targets)
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          const series = [...expr.matchAll(/\b(cgn_[a-z0-9_]+)/g)].flatMap(
            ([, name = ""]) => rowOf(name)?.row.labels ?? [],
          );
          expect([...series, "instance"], title).toContain(label);
        }
  });
});
