import type { ReplayFigures, ReplayRun } from "../sim/replay/run-replay.ts";
import { textTable } from "./kv-address.ts";

/** What a person reads after `cgn replay`. */
export function replayTable(runs: readonly ReplayRun[]): string {
  const [first] = runs;
  if (first === undefined) return "";
  const { figures } = first;
  const head = [
    `${figures.trace}: ${figures.requests} requests in ${span(figures.virtualSeconds * 1000)}; ${figures.engines} engines (profile ${figures.profile}, KV offload ${figures.kvOffload}), ${figures.routers} router${figures.routers === 1 ? "" : "s"}`,
    `Hit rate is the share of blocks of ${figures.blockSize} tokens; one cache without limits would have ${percent(figures.hitRateCeiling)}.`,
    "",
  ];
  const rows = runs.map(({ label, figures: f }) => [
    label,
    percent(f.hitRate),
    span(f.ttftMs.mean),
    span(f.ttftMs.p50),
    span(f.ttftMs.p90),
    span(f.ttftMs.p99),
    span(f.itlMs.p50),
    span(f.itlMs.p90),
    span(f.e2eMs.mean),
    f.loadCv.toFixed(3),
    Math.round(f.gpuSeconds).toString(),
    f.rejected + f.failed === 0 ? "-" : `${f.rejected} + ${f.failed}`,
  ]);
  const table = textTable([
    [
      "POLICY",
      "HIT RATE",
      "TTFT MEAN",
      "P50",
      "P90",
      "P99",
      "ITL P50",
      "P90",
      "E2E MEAN",
      "LOAD CV",
      "GPU S",
      "REFUSED + CUT",
    ],
    ...rows,
  ]);
  const time = runs.map(({ label, figures: f }) => `${label}: ${timeText(f)}`);
  const seconds = runs.reduce((sum, run) => sum + run.figures.wallSeconds, 0);
  const total = runs.reduce((sum, run) => sum + run.figures.requests, 0);
  const tail = [`${total} requests replayed in ${seconds.toFixed(1)} s`, ...figures.notes];
  return [
    ...head,
    table,
    "",
    "Where the mean request's time went:",
    ...time.map((line) => `  ${line}`),
    "",
    ...tail,
  ].join("\n");
}

function timeText({ meanTimeMs }: ReplayFigures): string {
  const parts = Object.entries(meanTimeMs).filter(([, ms]) => ms >= 0.05);
  return parts.length === 0 ? "no time" : parts.map(([name, ms]) => `${name} ${span(ms)}`).join(", ");
}

export const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;

/** A time for people: 12.3 ms, 850 ms, 1.64 s, 59.1 min. */
export function span(ms: number): string {
  if (ms < 100) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${(ms / 60_000).toFixed(1)} min`;
}
