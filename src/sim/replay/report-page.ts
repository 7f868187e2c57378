import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { TimeParts } from "./measures.ts";
import { reportData } from "./report-data.ts";
import { drawReport } from "./report-script.ts";
import { REPORT_STYLE } from "./report-style.ts";
import type { ReplayFigures, ReplayRun } from "./run-replay.ts";

const PARTS: readonly (readonly [keyof TimeParts, string])[] = [
  ["overhead", "HTTP and tokenizer"],
  ["queue", "waiting"],
  ["fetch", "fetching from tiers"],
  ["prefill", "prefill"],
  ["transfer", "prefill → decode"],
  ["decode", "decode"],
];

/** The report as one HTML file that works without a network: plots by uPlot (MIT), inlined. */
export function reportPage(runs: readonly ReplayRun[]): string {
  const first = runs[0]?.figures;
  if (first === undefined) throw new RangeError("a report needs at least one run");
  const title = `Replay of ${first.trace}`;
  const plots = [
    section(
      "Hit rate over time",
      `Share of a prompt's blocks that its engine held. One cache without limits reaches ${percent(first.hitRateCeiling)} over the whole trace.`,
      plot("hits"),
    ),
    section("Time to first token, distribution", "Share of requests that had their first token by then.", plot("ttft")),
    section("Time to first token over time", "Mean of the requests that arrived then.", plot("ttft-time")),
    section("Where the time went", "Mean request, from its arrival to its last token.", bars(runs)),
    ...runs.map((run, i) =>
      section(
        `Load per engine: ${escapeHtml(run.label)}`,
        "Requests in flight on each engine.",
        plot(`load-${i}`) + engineTable(run.figures),
      ),
    ),
  ];
  return [
    "<!doctype html>",
    `<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${escapeHtml(title)}</title>`,
    `<style>${asset("uplot/dist/uPlot.min.css")}${REPORT_STYLE}</style></head><body><main>`,
    `<h1>${escapeHtml(title)}</h1><p>${escapeHtml(summary(first))}</p>`,
    `<div class="grid">${section("Figures", notes(first), `<div class="scroll">${figuresTable(runs)}</div>`, "wide")}${plots.join("")}</div>`,
    `</main><script>${asset("uplot/dist/uPlot.iife.min.js")}</script>`,
    `<script>(${drawReport.toString()})(${json(reportData(runs))}, uPlot)</script></body></html>`,
  ].join("\n");
}

function section(title: string, about: string, body: string, extra = ""): string {
  return `<section class="${extra}"><h2>${title}</h2><p>${escapeHtml(about)}</p>${body}</section>`;
}

const plot = (id: string): string => `<div class="plot" id="${id}"></div>`;

function summary(f: ReplayFigures): string {
  const routers = f.routers === 1 ? "one router" : `${f.routers} routers`;
  return `${f.requests} requests in ${time(f.virtualSeconds * 1000)} of virtual time; ${f.engines} engines of profile ${f.profile}, KV offload ${f.kvOffload}; ${routers} ${f.routers === 1 ? "that knows" : "that know"} caches by ${f.knowledge}; seed ${f.seed}.`;
}

function notes(f: ReplayFigures): string {
  return [
    "Simulated: times are predictions of the profile, hit rates follow from the engines' own rules.",
    ...f.notes,
  ].join(" ");
}

function figuresTable(runs: readonly ReplayRun[]): string {
  const head = [
    "",
    "Hit rate",
    "TTFT mean",
    "p50",
    "p90",
    "p99",
    "ITL p50",
    "p90",
    "E2E mean",
    "Load CV",
    "GPU s",
    "Refused",
    "Cut off",
  ];
  const rows = runs.map(({ label, figures: f }, i) => [
    `<span class="dot" style="background:var(--line-${i % 8})"></span>${escapeHtml(label)}`,
    percent(f.hitRate),
    ...[f.ttftMs.mean, f.ttftMs.p50, f.ttftMs.p90, f.ttftMs.p99, f.itlMs.p50, f.itlMs.p90, f.e2eMs.mean].map(time),
    f.loadCv.toFixed(3),
    String(Math.round(f.gpuSeconds)),
    String(f.rejected),
    String(f.failed),
  ]);
  return table(head, rows);
}

function engineTable({ perEngine, virtualSeconds }: ReplayFigures): string {
  const rows = perEngine.map((engine, i) => [
    `<span class="dot" style="background:var(--line-${i % 8})"></span>${i}`,
    String(engine.requests),
    percent(engine.hitRate),
    percent(virtualSeconds === 0 ? 0 : engine.busySeconds / virtualSeconds),
  ]);
  return `<details><summary>By engine</summary>${table(["Engine", "Requests answered", "Hit rate", "Busy"], rows)}</details>`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[], tag: string): string =>
    `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  return `<table><thead>${row(head, "th")}</thead><tbody>${rows.map((cells) => row(cells, "td")).join("")}</tbody></table>`;
}

function bars(runs: readonly ReplayRun[]): string {
  const whole = ({ meanTimeMs }: ReplayFigures): number => PARTS.reduce((sum, [part]) => sum + meanTimeMs[part], 0);
  const longest = Math.max(1e-9, ...runs.map(({ figures }) => whole(figures)));
  const lines = runs.map(({ label, figures }) => {
    const parts = PARTS.map(([part, name]) => {
      const ms = figures.meanTimeMs[part];
      return ms <= 0
        ? ""
        : `<i title="${name}: ${time(ms)}" style="width:${((ms / longest) * 100).toFixed(2)}%;background:var(--${part})"></i>`;
    });
    return `<div class="bar"><b>${escapeHtml(label)}</b><div class="parts">${parts.join("")}</div><span>${time(whole(figures))}</span></div>`;
  });
  const used = PARTS.filter(([part]) => runs.some(({ figures }) => figures.meanTimeMs[part] > 0));
  const key = used.map(
    ([part, name]) => `<span><span class="dot" style="background:var(--${part})"></span>${name}</span>`,
  );
  const head = ["", ...used.map(([, name]) => name)];
  const rows = runs.map(({ label, figures }) => [
    escapeHtml(label),
    ...used.map(([part]) => time(figures.meanTimeMs[part])),
  ]);
  return `${lines.join("")}<div class="key">${key.join("")}</div><h3>Mean, by part</h3><div class="scroll">${table(head, rows)}</div>`;
}

function asset(name: string): string {
  return readFileSync(createRequire(import.meta.url).resolve(name), "utf8");
}

/** JSON inside a script element: nothing in it may close the element. */
function json(value: unknown): string {
  const rounded = JSON.stringify(value, (_, v: unknown) => (typeof v === "number" ? Number(v.toPrecision(6)) : v));
  return rounded.replaceAll("<", "\\u003c");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;

function time(ms: number): string {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return ms < 120_000 ? `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s` : `${(ms / 60_000).toFixed(1)} min`;
}
