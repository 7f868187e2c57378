import type { ReportData } from "./report-data.ts";

/** The part of uPlot 1.6 that is used: `uPlot(options, data, element)`. */
type Plot = { destroy(): void; setSize(size: { width: number; height: number }): void };
type PlotMaker = new (options: object, data: readonly (readonly (number | null)[])[], target: Element) => Plot;

/**
 * Draws the report's plots. Runs in the browser: its text is put into the page, so it must not use anything outside itself.
 */
export function drawReport(data: ReportData, UPlot: PlotMaker): void {
  const HEIGHT = 240;
  const style = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (i: number): string => style(`--line-${i % 8}`);
  const percent = (v: number | null): string => (v === null || v === undefined ? "–" : `${(v * 100).toFixed(1)} %`);
  const time = (ms: number | null): string => {
    if (ms === null || ms === undefined) return "–";
    if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    return ms < 120_000 ? `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s` : `${(ms / 60_000).toFixed(1)} min`;
  };
  const minutes = (s: number): string => (s < 120 ? `${Math.round(s)} s` : `${(s / 60).toFixed(s < 600 ? 1 : 0)} min`);
  let plots: { plot: Plot; target: Element }[] = [];

  const axis = (format: (v: number) => string, size: number) => ({
    stroke: style("--soft"),
    grid: { stroke: style("--grid"), width: 1 },
    ticks: { stroke: style("--grid"), width: 1 },
    font: "12px system-ui, sans-serif",
    size,
    values: (_: unknown, ticks: (number | null)[]) => ticks.map((v) => (v === null ? "" : format(v))),
  });
  const line = (label: string, stroke: string, value: (v: number | null) => string, more: object = {}) => ({
    label,
    stroke,
    width: 1.75,
    spanGaps: true,
    points: { show: false },
    value: (_: unknown, v: number | null) => value(v),
    ...more,
  });
  const draw = (
    id: string,
    options: { scales?: object; axes: object[]; series: object[] },
    columns: (number | null)[][],
  ): void => {
    const target = document.getElementById(id);
    if (target === null) return;
    target.textContent = "";
    const made = new UPlot(
      { width: target.clientWidth, height: HEIGHT, cursor: { drag: { x: true, y: false } }, ...options },
      columns,
      target,
    );
    plots.push({ plot: made, target });
  };
  /** Runs have bins of their own width; every line is put on the finest. */
  const onTime = (pick: (run: ReportData["runs"][number]) => readonly (number | null)[][]): (number | null)[][] => {
    const width = Math.min(...data.runs.map((run) => run.plots.binSeconds));
    const end = Math.max(...data.runs.map((run) => run.plots.binSeconds * run.plots.hitRate.length));
    const xs = Array.from({ length: Math.ceil(end / width) }, (_, i) => i * width);
    const lines = data.runs.flatMap((run) =>
      pick(run).map((ys) => xs.map((x) => ys[Math.floor(x / run.plots.binSeconds)] ?? null)),
    );
    return [xs, ...lines];
  };
  /** Single bins jump; each point stands for about a fiftieth of the time. */
  const smooth = (ys: readonly (number | null)[]): (number | null)[] => {
    const half = Math.floor(ys.length / 100);
    return ys.map((_, i) => {
      const near = ys.slice(Math.max(0, i - half), i + half + 1).filter((y) => y !== null);
      return near.length === 0 ? null : near.reduce((a, b) => a + b, 0) / near.length;
    });
  };

  /** On a logarithmic axis only powers of ten are labelled. */
  const decades = (_: unknown, ticks: (number | null)[]): (number | null)[] =>
    ticks.map((v) => (v !== null && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9 ? v : null));

  const overTime = (
    id: string,
    pick: (run: ReportData["runs"][number]) => readonly (number | null)[],
    format: (v: number | null) => string,
  ): void => {
    const x = { label: "after", value: (_: unknown, v: number | null) => (v === null ? "–" : minutes(v)) };
    const series = data.runs.map((run, i) => line(run.label, colour(i), format));
    draw(
      id,
      {
        scales: {
          x: { time: false },
          y: { range: (_: unknown, _low: number, high: number) => [0, (high || 1) * 1.05] },
        },
        axes: [axis(minutes, 34), axis(format, 70)],
        series: [x, ...series],
      },
      onTime((run) => [smooth(pick(run))]),
    );
  };

  const distribution = (): void => {
    const least = 0.1;
    const all = [...new Set(data.runs.flatMap((run) => run.plots.ttftQuantiles.map((ms) => Math.max(least, ms))))].sort(
      (a, b) => a - b,
    );
    const shareAt = (quantiles: readonly number[], ms: number): number => {
      let i = 0;
      while (i < quantiles.length && quantiles[i]! <= ms) i++;
      return Math.max(0, i - 1) / (quantiles.length - 1);
    };
    const x = { label: "TTFT up to", value: (_: unknown, v: number | null) => time(v) };
    const lines = data.runs.map((run) => all.map((ms) => shareAt(run.plots.ttftQuantiles, ms)));
    draw(
      "ttft",
      {
        scales: { x: { time: false, distr: 3 }, y: { range: [0, 1.02] } },
        axes: [{ ...axis(time, 34), filter: decades, space: 60 }, axis((v) => percent(v).replace(".0", ""), 70)],
        series: [x, ...data.runs.map((run, i) => line(run.label, colour(i), percent))],
      },
      [all, ...lines],
    );
  };

  const loads = (): void => {
    const most = Math.max(
      1,
      ...data.runs.flatMap((run) => run.plots.inFlight.flatMap((ys) => smooth(ys).map((y) => y ?? 0))),
    );
    data.runs.forEach((run, r) => {
      const x = { label: "after", value: (_: unknown, v: number | null) => (v === null ? "–" : minutes(v)) };
      const xs = run.plots.hitRate.map((_, i) => i * run.plots.binSeconds);
      const series = run.plots.inFlight.map((_, i) =>
        line(`${i}`, colour(i), (v) => (v === null || v === undefined ? "–" : v.toFixed(1)), { width: 1.25 }),
      );
      draw(
        `load-${r}`,
        {
          scales: { x: { time: false }, y: { range: [0, most * 1.05] } },
          axes: [axis(minutes, 34), axis((v) => String(v), 70)],
          series: [x, ...series],
        },
        [xs, ...run.plots.inFlight.map(smooth)],
      );
    });
  };

  const drawAll = (): void => {
    for (const { plot } of plots) plot.destroy();
    plots = [];
    overTime("hits", (run) => run.plots.hitRate, percent);
    distribution();
    overTime("ttft-time", (run) => run.plots.ttftMs, time);
    loads();
  };
  drawAll();
  addEventListener("resize", () => {
    for (const { plot, target } of plots) plot.setSize({ width: target.clientWidth, height: HEIGHT });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
