import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type LiveRun, playLive, playOracle } from "./quality/live.ts";
import { ROUTERS } from "./quality/routers.ts";
import { loadWorkload, type QualityRequest } from "./quality/trace.ts";
import { playVirtually } from "./quality/virtual.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const TRACE = join(import.meta.dirname, "..", "..", "shared", "traces", "mooncake-conversation.jsonl");
const ENGINES = 4;
const SIZE = { blockTokens: 16, blocks: 4000, prefillRate: 8000 } as const;
const REQUESTS = 2000;
const SCALE = 16;
/** How late routers hear of each other through kvcached. */
const SHARE_MS = 10;
const KNOWLEDGE_MS = 3;

interface Case {
  readonly name: string;
  readonly compress: number;
  readonly spread: boolean;
  readonly hotShare: number;
}

const CASES: readonly Case[] = [
  { name: "bursts, 80 % busy", compress: 8, spread: false, hotShare: 0 },
  { name: "even, 80 % busy", compress: 8, spread: true, hotShare: 0 },
  { name: "bursts, 50 % busy", compress: 5, spread: false, hotShare: 0 },
  { name: "bursts, 95 % busy", compress: 9.5, spread: false, hotShare: 0 },
  { name: "one hot prefix at 60 %", compress: 8, spread: false, hotShare: 0.6 },
];

interface QualityOptions {
  readonly json: boolean;
  /** In virtual time only: seconds instead of hours, no peers. */
  readonly quick?: boolean;
  readonly trace?: string | undefined;
  /** Case numbers from 0, and routers by name; default: case 0 with all. */
  readonly only?: readonly string[];
  readonly rounds?: string | undefined;
  /** A file of JSON lines to which each run is added; the figures are then of all runs in it. */
  readonly runs?: string | undefined;
}

/** A run as it is kept. */
interface KeptRun extends LiveRun {
  readonly case: string;
}

/**
 * How soon routers bring requests to their first token: a real conversation trace, open loop, against simulated engines with tight
 * caches. `--quick`: our policies and an oracle in virtual time. Else live, each router as a process beside peers
 * that are installed (docs/routing.md), `--rounds` times in turn.
 */
export async function run(options: QualityOptions): Promise<BenchResult> {
  const file = options.trace ?? TRACE;
  if (!existsSync(file)) throw new Error(`No trace at ${file}: give one with --trace FILE (Mooncake JSON lines)`);
  const results = options.quick === true ? virtualFigures(file) : await liveFigures(file, options);
  const result: BenchResult = { bench: "quality", results, machine: machine() };
  printResult(result, options.json);
  return result;
}

const workload = (file: string, { compress, spread, hotShare }: Case): QualityRequest[] =>
  loadWorkload({ file, requests: REQUESTS, scale: SCALE, compress, spread, hotShare });

function virtualFigures(file: string): BenchFigure[] {
  return CASES.flatMap((each) => {
    const requests = workload(file, each);
    const fleet = { engines: ENGINES, size: SIZE, knowledgeMs: KNOWLEDGE_MS, routers: 1, shareMs: SHARE_MS };
    const play = (name: string, more: { readonly policy: string; readonly routers?: number }) => {
      const { mean, p99, hitRate } = playVirtually(requests, { ...fleet, ...more });
      const title = `${each.name}: ${name}`;
      return [
        figure(title, "TTFT mean", "ms", [mean]),
        figure(title, "TTFT p99", "ms", [p99]),
        figure(title, "hits", "percent", [hitRate * 100]),
      ];
    };
    return [
      ...["oracle", "ttft", "weighted", "least_loaded", "round_robin", "prefix_hash", "random"].flatMap((policy) =>
        play(policy, { policy }),
      ),
      ...[2, 4].flatMap((routers) => play(`ttft, ${routers} routers`, { policy: "ttft", routers })),
    ];
  });
}

async function liveFigures(file: string, options: QualityOptions): Promise<BenchFigure[]> {
  const { only = [], rounds = "3" } = options;
  const numbers = only.filter((text) => /^\d$/.test(text)).map(Number);
  const names = only.filter((text) => !/^\d$/.test(text));
  const cases = (numbers.length === 0 ? [0] : numbers).map((i) => CASES[i]!);
  const all = ["oracle", ...ROUTERS.map(({ name }) => name)];
  const routers = names.length === 0 ? all : names;
  const runs: KeptRun[] = [];
  for (let round = 0; round < Number(rounds); round++) {
    for (const each of cases) {
      const requests = workload(file, each);
      for (const name of routers) {
        const kept = { case: each.name, ...(await playOne(name, requests)) };
        runs.push(kept);
        if (options.runs !== undefined) appendFileSync(options.runs, `${JSON.stringify(kept)}\n`);
        process.stderr.write(`${lineOf(kept)}\n`);
      }
    }
  }
  return figuresOf(options.runs === undefined ? runs : readRuns(options.runs));
}

function playOne(name: string, requests: readonly QualityRequest[]): Promise<LiveRun> {
  if (name === "oracle") return playOracle(requests, ENGINES, SIZE);
  const router = ROUTERS.find((each) => each.name === name);
  if (router === undefined)
    throw new Error(`No router "${name}": use oracle, ${ROUTERS.map((each) => each.name).join(", ")}`);
  return playLive(router, requests, ENGINES, SIZE);
}

const readRuns = (file: string): KeptRun[] =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as KeptRun);

function lineOf({ case: name, router, engine, client, valid }: KeptRun): string {
  const { mean, p50, p90, p99, hitRate } = engine;
  const ms = [mean, p50, p90, p99].map((each) => Math.round(each)).join(" / ");
  const seen = `${Math.round(client.ttftMean)} / ${Math.round(client.ttftP99)}`;
  return `${name}  ${router}: ${ms} ms, ${(hitRate * 100).toFixed(1)} % hits, clients ${seen}, ${client.failed} failed${valid ? "" : ", NOT VALID: late"}`;
}

/** Medians over the runs that were in time. */
function figuresOf(runs: readonly KeptRun[]): BenchFigure[] {
  const groups = Map.groupBy(
    runs.filter(({ valid }) => valid),
    (each) => `${each.case}: ${each.router}`,
  );
  return [...groups].flatMap(([title, of]) => [
    figure(
      title,
      "TTFT mean",
      "ms",
      of.map(({ engine }) => engine.mean),
    ),
    figure(
      title,
      "TTFT p50",
      "ms",
      of.map(({ engine }) => engine.p50),
    ),
    figure(
      title,
      "TTFT p90",
      "ms",
      of.map(({ engine }) => engine.p90),
    ),
    figure(
      title,
      "TTFT p99",
      "ms",
      of.map(({ engine }) => engine.p99),
    ),
    figure(
      title,
      "hits",
      "percent",
      of.map(({ engine }) => engine.hitRate * 100),
    ),
    figure(
      title,
      "TTFT mean at the client",
      "ms",
      of.map(({ client }) => client.ttftMean),
    ),
    figure(
      title,
      "engines busy",
      "percent",
      of.map(({ busy }) => (busy.reduce((a, b) => a + b, 0) / busy.length) * 100),
    ),
    ...(of[0]!.cpuMs === undefined
      ? []
      : [
          figure(
            title,
            "CPU",
            "ms/request",
            of.map(({ cpuMs }) => cpuMs!),
          ),
        ]),
  ]);
}
