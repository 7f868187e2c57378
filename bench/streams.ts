import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ready } from "./memory.ts";
import { ask } from "./proxy.ts";
import { cpuUs, forked, freePorts, rssMb } from "./proxy-targets.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const STREAMS = 10_000;
const ENGINES = 2;
const EVENTS = 8;
/** So long between two events of a stream: 10,000 streams are then 1,250 events a second. */
const STEP_MS = 8_000;

const BUILT = join(import.meta.dirname, "..", "dist", "cli", "bin", "cgn.js");
const CGN = existsSync(BUILT) ? BUILT : join(import.meta.dirname, "..", "src", "cli", "bin", "cgn.ts");

/**
 * Many streams at once on one router process: each must come whole (the load generator counts those that end as they should), and what
 * a stream takes of memory, and what they do to the event loop, is told. `--count N` streams.
 */
export async function run(options: { readonly json: boolean; readonly count?: string }): Promise<BenchResult> {
  const count = Number(options.count ?? STREAMS);
  const children: ChildProcess[] = [];
  try {
    const [port, admin, ...ports] = await freePorts(2 + 2 * ENGINES);
    const specs: string[] = [];
    for (let i = 0; i < ENGINES; i++) {
      const [at, kv] = [ports[i]!, ports[ENGINES + i]!];
      const argv = [at, EVENTS, STEP_MS, kv].map(String);
      children.push(await forked(join(import.meta.dirname, "proxy-upstream.ts"), argv));
      specs.push("--engine", `http://127.0.0.1:${at},kind=vllm,model=m,tokenizer=bytes,events=tcp://127.0.0.1:${kv}`);
    }
    const listen = ["--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admin}`, "--log-level", "error"];
    // A connection to the client and one to the engine for each stream: as many files as the system lets us have.
    const argv = [
      "-c",
      'ulimit -n 65536 2>/dev/null; exec "$@"',
      "sh",
      process.execPath,
      CGN,
      "router",
      ...listen,
      ...specs,
    ];
    const router = spawn("sh", argv, { stdio: "ignore" });
    children.push(router);
    const load = await forked(join(import.meta.dirname, "proxy-load.ts"));
    children.push(load);
    const url = `http://127.0.0.1:${port}`;
    await ready(url);
    // What is compiled and allocated once is no stream's.
    await ask(load, { url, bytes: 1024, stream: false, connections: 32, requests: 5_000, rate: 0 });
    const results = await measure(router.pid!, `http://127.0.0.1:${admin}`, count, (rate) =>
      ask(load, { url, bytes: 1024, stream: true, connections: count, requests: count, rate, events: EVENTS }),
    );
    const result: BenchResult = { bench: "streams", results, machine: machine() };
    printResult(result, options.json);
    return result;
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

async function measure(
  pid: number,
  admin: string,
  count: number,
  send: (rate: number) => ReturnType<typeof ask>,
): Promise<BenchFigure[]> {
  const before = rssMb([pid]);
  const cpuBefore = cpuUs([pid]);
  const open: number[] = [];
  const memory: number[] = [];
  const lags: number[] = [];
  // A figure is of the time since the one before, so each is taken once.
  const look = setInterval(() => {
    void metricsOf(admin).then(
      (gauge) => {
        open.push(gauge("cgn_router_worker_inflight"));
        lags.push(gauge("nodejs_eventloop_lag_p99_seconds") * 1000);
        memory.push(rssMb([pid]));
      },
      // The run is over.
      () => {},
    );
  }, 2_000);
  // Over one step, so that streams are spread over it.
  const { answered, failed } = await send(count / (STEP_MS / 1000));
  clearInterval(look);
  const most = Math.max(...open);
  const name = `${count} streams of ${EVENTS} events, ${STEP_MS} ms apart`;
  const all = memory.filter((_mb, i) => open[i]! >= most * 0.99);
  const during = lags.filter((_ms, i) => open[i]! >= most * 0.99);
  return [
    figure(name, "whole", "streams", [answered]),
    figure(name, "lost or cut", "streams", [failed]),
    figure(name, "open at once", "streams", [most]),
    figure(name, "memory a stream", "KB", [((Math.max(...all) - before) * 1024) / most]),
    figure(name, "event loop delay p99", "ms", during),
    figure(name, "cpu", "us/stream", [(cpuUs([pid]) - cpuBefore) / count]),
  ];
}

async function metricsOf(admin: string): Promise<(metric: string) => number> {
  const text = await fetch(`${admin}/metrics`).then((response) => response.text());
  return (metric) => {
    const values = [...text.matchAll(new RegExp(`^${metric}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))];
    return values.reduce((sum, [, value]) => sum + Number(value), 0);
  };
}
