import type { ChildProcess } from "node:child_process";
import type { LoadJob, LoadResult } from "./proxy-load.ts";
import { cpuUs, DEFAULT_PEERS, forked, startBed, type Target } from "./proxy-targets.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const RUNS = 3;

interface Case {
  readonly name: string;
  readonly job: Omit<LoadJob, "url">;
  /** Requests before those that count, so that what is measured is compiled. */
  readonly warmUp: number;
}

const CASES: readonly Case[] = [
  { name: "1KB", job: { bytes: 1024, stream: false, connections: 32, requests: 40_000, rate: 0 }, warmUp: 30_000 },
  {
    name: "32KB",
    job: { bytes: 32 * 1024, stream: false, connections: 32, requests: 16_000, rate: 0 },
    warmUp: 12_000,
  },
  { name: "stream", job: { bytes: 1024, stream: true, connections: 64, requests: 960, rate: 0 }, warmUp: 320 },
];
/** Low load: what the hop itself adds. */
const LATENCY: Omit<LoadJob, "url"> = { bytes: 1024, stream: false, connections: 4, requests: 400, rate: 50 };

/**
 * CPU time a request of the router (render, match, choose, metrics included) before two fake engines, and the latency it adds, at
 * 1 KB, 32 KB and streaming (64 events); in the same run, by turns, for a bare Node proxy and the peers that are installed
 * (`--against NAME`, see `startBed()`). Linux only: CPU time comes from /proc.
 */
export async function run(options: {
  readonly json: boolean;
  readonly against: readonly string[];
}): Promise<BenchResult> {
  const bed = await startBed(options.against.length > 0 ? options.against : DEFAULT_PEERS);
  let load: ChildProcess | undefined;
  try {
    for (const name of bed.missing) process.stderr.write(`${name} is not installed, and left out\n`);
    load = await forked(new URL("./proxy-load.ts", import.meta.url).pathname);
    const results = await measureAll(bed.targets, bed.upstreams[0]!, load);
    const result: BenchResult = { bench: "proxy", results, machine: machine() };
    printResult(result, options.json);
    return result;
  } finally {
    load?.kill("SIGKILL");
    bed.close();
  }
}

class Figures {
  readonly #kept = new Map<string, { name: string; metric: string; unit: string; runs: number[] }>();

  note(name: string, metric: string, unit: string, value: number): void {
    const key = `${name} ${metric}`;
    const kept = this.#kept.get(key) ?? { name, metric, unit, runs: [] };
    this.#kept.set(key, kept);
    kept.runs.push(value);
  }

  all(): BenchFigure[] {
    return [...this.#kept.values()].map(({ name, metric, unit, runs }) => figure(name, metric, unit, runs));
  }
}

async function measureAll(targets: readonly Target[], direct: string, load: ChildProcess): Promise<BenchFigure[]> {
  const figures = new Figures();
  for (const { url } of targets) {
    for (const { job, warmUp } of CASES) await ask(load, { ...job, requests: warmUp, url });
  }
  for (let i = 0; i < RUNS; i++) {
    // One case after the other, so that all targets meet the same minute of the machine.
    for (const { name, job } of CASES) {
      for (const target of targets) {
        const before = cpuUs(target.pids);
        const { answered, failed, seconds } = await ask(load, { ...job, url: target.url });
        if (failed > 0) throw new Error(`${target.name} ${name}: ${failed} requests failed`);
        figures.note(`${target.name} ${name}`, "cpu", "us/request", (cpuUs(target.pids) - before) / answered);
        figures.note(`${target.name} ${name}`, "throughput", "requests/s", answered / seconds);
      }
    }
    const base = await ask(load, { ...LATENCY, url: direct });
    figures.note("direct 1KB", "latency p50", "us", base.p50Us);
    figures.note("direct 1KB", "latency p99", "us", base.p99Us);
    for (const target of targets) {
      const through = await ask(load, { ...LATENCY, url: target.url });
      figures.note(`${target.name} 1KB`, "added latency p50", "us", through.p50Us - base.p50Us);
      figures.note(`${target.name} 1KB`, "latency p99", "us", through.p99Us);
    }
  }
  return figures.all();
}

/** One job of the load generator. */
export function ask(load: ChildProcess, job: LoadJob): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const ended = (): void => reject(new Error("the load generator ended"));
    load.once("exit", ended);
    load.once("message", (result) => {
      load.off("exit", ended);
      resolve(result as LoadResult);
    });
    load.send(job);
  });
}
