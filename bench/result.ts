import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";

/** One figure of a benchmark, over several runs. */
export interface BenchFigure {
  readonly case: string;
  readonly metric: string;
  readonly unit: string;
  /** The median. */
  readonly value: number;
  readonly min: number;
  readonly median: number;
  readonly max: number;
  readonly runs: number;
}

/** Where it was measured. */
export interface BenchMachine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly os: string;
  readonly node: string;
  /** One-minute load average when the benchmark ended: other work on the machine. */
  readonly load: number;
  readonly date: string;
}

/** What `npm run bench -- NAME --json` prints. */
export interface BenchResult {
  readonly bench: string;
  readonly results: readonly BenchFigure[];
  readonly machine: BenchMachine;
}

/** A figure from its runs' values, rounded to four digits. */
export function figure(name: string, metric: string, unit: string, values: readonly number[]): BenchFigure {
  const sorted = values.map(round).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
  return {
    case: name,
    metric,
    unit,
    value: at(0.5),
    min: at(0),
    median: at(0.5),
    max: at(1),
    runs: values.length,
  };
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** This machine. */
export function machine(): BenchMachine {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryGib: Math.round(totalmem() / 1024 ** 3),
    os: `${process.platform} ${release()}`,
    node: process.version,
    load: round(loadavg()[0] ?? 0),
    date: new Date().toISOString().slice(0, 10),
  };
}

/** Print a result: one JSON object, or a line a figure. */
export function printResult(result: BenchResult, json: boolean): void {
  if (json) {
    console.log(JSON.stringify(result));
    return;
  }
  for (const { case: name, metric, unit, value, min, max, runs } of result.results) {
    console.log(`${result.bench}  ${name}  ${metric}: ${value} ${unit} (${min} to ${max}, ${runs} runs)`);
  }
  const { cpu, cores, node, load } = result.machine;
  console.log(`${cpu}, ${cores} cores, Node ${node}, load ${load}`);
}
