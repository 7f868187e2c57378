import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ask } from "./proxy.ts";
import { forked, freePorts, rssMb } from "./proxy-targets.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const REQUESTS = 300_000;
const STEPS = 10;
const ENGINES = 2;
/** Blocks of 16 tokens that an engine's cache holds. */
const BLOCKS = 65_536;

/** How the router knows what engines hold: by their events, or by what it sent them. */
const KINDS = ["events", "history"] as const;

/** What is published, where it was built: unbuilt the process also has what takes types out of its source, 60 MB. */
const BUILT = join(import.meta.dirname, "..", "dist", "cli", "bin", "cgn.js");
const CGN = existsSync(BUILT) ? BUILT : join(import.meta.dirname, "..", "src", "cli", "bin", "cgn.ts");

/**
 * Memory of a whole `cgn router` (index embedded) after many requests, each with a text of its own behind a system prompt that all
 * share: what a router that never forgets would be filled by. `--count N` requests, `--only events|history`.
 */
export async function run(options: {
  readonly json: boolean;
  readonly count?: string;
  readonly only: readonly string[];
}): Promise<BenchResult> {
  const count = Number(options.count ?? REQUESTS);
  const results: BenchFigure[] = [];
  for (const kind of KINDS) {
    if (options.only.length === 0 || options.only.includes(kind)) results.push(...(await measure(kind, count)));
  }
  const result: BenchResult = { bench: "memory", results, machine: machine() };
  printResult(result, options.json);
  return result;
}

async function measure(kind: (typeof KINDS)[number], count: number): Promise<BenchFigure[]> {
  const children: ChildProcess[] = [];
  try {
    const [port, admin, ...ports] = await freePorts(2 + 2 * ENGINES);
    const specs: string[] = [];
    for (let i = 0; i < ENGINES; i++) {
      const [at, kv] = [ports[i]!, ports[ENGINES + i]!];
      const argv = [at, 64, 10, ...(kind === "events" ? [kv, BLOCKS] : [])].map(String);
      children.push(await forked(join(import.meta.dirname, "proxy-upstream.ts"), argv));
      const events = kind === "events" ? `,events=tcp://127.0.0.1:${kv}` : "";
      // Such an engine publishes nothing: it is known by what was sent to it.
      const engine = kind === "events" ? "vllm" : "openai_compat";
      specs.push("--engine", `http://127.0.0.1:${at},kind=${engine},model=m,tokenizer=bytes${events}`);
    }
    const listen = ["--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admin}`, "--log-level", "error"];
    const router = spawn(process.execPath, [CGN, "router", ...listen, ...specs], { stdio: "ignore" });
    children.push(router);
    const load = await forked(join(import.meta.dirname, "proxy-load.ts"));
    children.push(load);
    const url = `http://127.0.0.1:${port}`;
    await ready(url);
    const job = { url, bytes: 1024, stream: false, connections: 32, rate: 0 };
    await ask(load, { ...job, requests: 2_000 });
    const start = rssMb([router.pid!]);
    let most = start;
    for (let step = 0; step < STEPS; step++) {
      const { failed } = await ask(load, { ...job, requests: Math.ceil(count / STEPS) });
      if (failed > 0) throw new Error(`${failed} requests failed`);
      most = Math.max(most, rssMb([router.pid!]));
    }
    const name = `${CGN === BUILT ? "" : "not built, "}${kind}, ${count} requests`;
    const shown = await fetch(`http://127.0.0.1:${admin}/metrics`).then((response) => response.text());
    const gauge = (metric: string): number =>
      [...shown.matchAll(new RegExp(`^${metric}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))].reduce((n, m) => n + Number(m[1]), 0);
    return [
      figure(name, "memory at the start", "MB", [start]),
      figure(name, "memory at the end", "MB", [rssMb([router.pid!])]),
      figure(name, "most memory", "MB", [most]),
      figure(name, "heap at the end", "MB", [gauge("nodejs_heap_size_used_bytes") / 2 ** 20]),
      figure(name, "of it the index", "MB", [gauge("cgn_kvcached_index_bytes") / 2 ** 20]),
    ];
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

/** Wait until a chat is answered. */
export async function ready(url: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] });
  for (let i = 0; i < 600; i++) {
    const signal = AbortSignal.timeout(2_000);
    const sent = fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal });
    const ok = await sent.then(
      async (response) => (await response.text()) !== "" && response.ok,
      () => false,
    );
    if (ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${url} did not get ready`);
}
