import { type ChildProcess, fork, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { LoadJob, LoadResult } from "./proxy-load.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

/** A proxy under test: its address and the processes whose CPU time counts. */
interface Target {
  readonly name: string;
  readonly url: string;
  readonly pids: readonly number[];
}

const RUNS = 3;
const here = (file: string): string => new URL(file, import.meta.url).pathname;

interface Case {
  readonly name: string;
  readonly job: Omit<LoadJob, "url">;
}

const CASES: readonly Case[] = [
  { name: "1KB", job: { bytes: 1024, stream: false, connections: 32, requests: 12_000, rate: 0 } },
  { name: "32KB", job: { bytes: 32 * 1024, stream: false, connections: 32, requests: 6_000, rate: 0 } },
  { name: "stream", job: { bytes: 1024, stream: true, connections: 64, requests: 256, rate: 0 } },
];
/** Low load: what the hop itself adds. */
const LATENCY: Omit<LoadJob, "url"> = { bytes: 1024, stream: false, connections: 4, requests: 300, rate: 50 };

/**
 * CPU time a request of the router (render, match, choose, metrics included) before two fake engines, and the latency it
 * adds, at 1 KB, 32 KB and streaming; the same for every `--against NAME=URL,PID` (which must stand before engines of its
 * own that answer alike). Linux only: CPU time comes from /proc.
 */
export async function run(options: {
  readonly json: boolean;
  readonly against: readonly string[];
}): Promise<BenchResult> {
  const children: ChildProcess[] = [];
  try {
    const ports = await freePorts(5);
    const upstreams = ports.slice(0, 2).map((port) => `http://127.0.0.1:${port}`);
    for (const port of ports.slice(0, 2)) children.push(await started(fork(here("proxy-upstream.ts"), [String(port)])));
    const router = await startRouter(upstreams, ports[2]!, ports[3]!, ports[4]!);
    children.push(router);
    const load = fork(here("proxy-load.ts"));
    children.push(load);
    const targets: Target[] = [
      { name: "cgn", url: `http://127.0.0.1:${ports[2]}`, pids: [router.pid!] },
      ...options.against.map(parseTarget),
    ];
    const results = await measureAll(targets, upstreams[0]!, load);
    const result: BenchResult = { bench: "proxy", results, machine: machine() };
    printResult(result, options.json);
    return result;
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

async function measureAll(targets: readonly Target[], direct: string, load: ChildProcess): Promise<BenchFigure[]> {
  const figures = new Map<
    string,
    { readonly unit: string; readonly metric: string; readonly name: string; readonly runs: number[] }
  >();
  const note = (name: string, metric: string, unit: string, value: number): void => {
    const key = `${name} ${metric}`;
    const kept = figures.get(key) ?? { name, metric, unit, runs: [] };
    figures.set(key, kept);
    kept.runs.push(value);
  };
  // What the first requests cost is compilation: a whole run of each case goes before those that count.
  for (const { url } of targets) for (const { job } of CASES) await ask(load, { ...job, url });
  for (let i = 0; i < RUNS; i++) {
    for (const target of targets) {
      for (const { name, job } of CASES) {
        const before = cpuUs(target.pids);
        const { answered, failed, seconds } = await ask(load, { ...job, url: target.url });
        if (failed > 0) throw new Error(`${target.name} ${name}: ${failed} requests failed`);
        note(`${target.name} ${name}`, "cpu", "us/request", (cpuUs(target.pids) - before) / answered);
        note(`${target.name} ${name}`, "throughput", "requests/s", answered / seconds);
      }
      const base = await ask(load, { ...LATENCY, url: direct });
      const through = await ask(load, { ...LATENCY, url: target.url });
      note(`${target.name} 1KB`, "added p50 latency", "us", through.p50Us - base.p50Us);
    }
  }
  return [...figures.values()].map(({ name, metric, unit, runs }) => figure(name, metric, unit, runs));
}

function ask(load: ChildProcess, job: LoadJob): Promise<LoadResult> {
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

/** User and system time of processes, in microseconds. The command may hold spaces, so the text is cut at its last bracket. */
function cpuUs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // Clock ticks of 10 ms.
    return sum + (Number(fields[11]) + Number(fields[12])) * 10_000;
  }, 0);
}

function parseTarget(text: string): Target {
  const [, name, url, pids] = /^([^=]+)=(https?:\/\/[^,]+),(\d+(?:,\d+)*)$/.exec(text) ?? [];
  if (name === undefined || url === undefined || pids === undefined) {
    throw new Error(`Cannot read --against "${text}": it is not NAME=URL,PID`);
  }
  return { name, url, pids: pids.split(",").map(Number) };
}

async function startRouter(
  upstreams: readonly string[],
  port: number,
  admin: number,
  silent: number,
): Promise<ChildProcess> {
  // Event sources that never speak: knowledge by events, so that a request pays for its match and not for a history's upkeep.
  const events = `events=tcp://127.0.0.1:${silent}`;
  const engines = upstreams.flatMap((url) => ["--engine", `${url},kind=vllm,model=m,tokenizer=bytes,${events}`]);
  const main = here("../src/cli/bin/cgn.ts");
  // Its talk, and warnings about the event sources that are silent on purpose, are no result.
  const args = [
    main,
    "router",
    "--log-level",
    "error",
    "--listen",
    `127.0.0.1:${port}`,
    "--admin",
    `127.0.0.1:${admin}`,
    ...engines,
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const collect = (chunk: Buffer): void => void (said += chunk.toString());
  child.stderr.on("data", collect);
  for (let i = 0; i < 200; i++) {
    const ready = await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => undefined);
    if (ready?.ok === true) {
      child.stderr.off("data", collect).pipe(process.stderr);
      return child;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  child.kill("SIGKILL");
  throw new Error(`the router did not get ready within 20 s: ${said}`);
}

function started(child: ChildProcess): Promise<ChildProcess> {
  return new Promise((resolve, reject) => {
    child.once("message", () => resolve(child));
    child.once("exit", () => reject(new Error("a fake engine did not start")));
  });
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise<typeof server>((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
    }),
  );
  return servers.map((server) => {
    const { port } = server.address() as { port: number };
    server.close();
    return port;
  });
}
