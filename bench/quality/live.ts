import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/cli/system-clock.ts";
import { type ClientFigures, chatBody, drive } from "./drive.ts";
import { type EngineEntry, type EngineSize, QualityEngine } from "./engine.ts";
import type { EnginesOptions } from "./engines-main.ts";
import { type QualityFigures, qualityFigures } from "./figures.ts";
import { Oracle } from "./oracle.ts";
import type { RouterPlaces, RouterUnderTest } from "./routers.ts";
import { serveEngine } from "./serve.ts";
import { blockNames, type QualityRequest, tokenize } from "./trace.ts";

/** One run of one router. */
export interface LiveRun {
  readonly router: string;
  readonly engine: QualityFigures;
  readonly client: ClientFigures;
  /** [engines] share of the time in which they computed. */
  readonly busy: readonly number[];
  /** How late the engines' timers were, mean milliseconds. */
  readonly lagMs: number;
  /** Engines and clients were in time: what was measured is the router. */
  readonly valid: boolean;
  /** Of the router's processes, milliseconds of CPU a request. */
  readonly cpuMs: number | undefined;
  readonly rssMb: number | undefined;
}

const LAG_LIMIT_MS = 4;
const LATE_LIMIT_MS = 100;
const START_LIMIT_MS = 60_000;
/** After the first answer, for events and probes to settle. */
const SETTLE_MS = 1_500;
/** Prompts of fewer tokens are our own. */
const WARM_UP_TOKENS = 8;

interface EngineState {
  readonly entries: readonly EngineEntry[];
  readonly steps: number;
  readonly lagSumMs: number;
  readonly busyMs: number;
}

/** Play the workload through a router and engines in processes of their own. */
export async function playLive(
  router: RouterUnderTest,
  requests: readonly QualityRequest[],
  engines: number,
  size: EngineSize,
): Promise<LiveRun> {
  const children: ChildProcess[] = [];
  const folder = mkdtempSync(join(tmpdir(), "cgn-quality-"));
  try {
    writeByteTokenizer(folder);
    const ports = await freePorts(2 * engines + 3 * router.routers);
    const urls = ports.slice(0, engines).map((port) => `http://127.0.0.1:${port}`);
    const events = ports.slice(engines, 2 * engines);
    const fleet: EnginesOptions = {
      ports: ports.slice(0, engines),
      events: router.events === undefined ? [] : events,
      form: router.events ?? "words",
      size,
    };
    const main = join(import.meta.dirname, "engines-main.ts");
    children.push(start([process.execPath, main, JSON.stringify(fleet)], folder));
    await until(async () => (await fetch(`${urls.at(-1)}/health`)).ok, "the engines");
    const places = Array.from({ length: router.routers }, (_, i): RouterPlaces => {
      const [port, admin, spare] = ports.slice(2 * engines + 3 * i) as [number, number, number];
      return { urls, events, port, admin, spare, tokenizer: folder };
    });
    const routers = router.commands(places).map((argv) => start(argv, folder));
    children.push(...routers);
    const targets = places.map(({ port }) => `http://127.0.0.1:${port}`);
    for (const target of targets) await warmUp(target, router.name);
    await sleep(SETTLE_MS);
    const pids = routers.map(({ pid }) => pid!);
    const before = cpuMs(pids);
    const client = await drive(requests, (_request, i) => targets[i % targets.length]!);
    const used = (cpuMs(pids) - before) / requests.length;
    const states = await Promise.all(
      urls.map(async (url) => (await (await fetch(`${url}/entries`)).json()) as EngineState),
    );
    return runOf(router.name, states, client, used, rssMb(pids));
  } finally {
    await Promise.all(children.map(end));
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Play the workload with the engines in this process, where the oracle sees them. */
export async function playOracle(
  requests: readonly QualityRequest[],
  engines: number,
  size: EngineSize,
): Promise<LiveRun> {
  const clock = systemClock();
  const ports = await freePorts(engines);
  const fleet = ports.map(() => new QualityEngine(size, clock));
  const oracle = new Oracle(fleet);
  const servers = await Promise.all(
    fleet.map((engine, i) => {
      const submit = engine.submit.bind(engine);
      engine.submit = (job) => {
        oracle.arrived(i, job.id);
        return submit(job);
      };
      return serveEngine(engine, ports[i]!, "words");
    }),
  );
  const blocks = requests.map(({ text }) => blockNames(tokenize(text), size.blockTokens));
  const client = await drive(requests, (request, i) => {
    const engine = oracle.choose({ ...request, blocks: blocks[i]! });
    return `http://127.0.0.1:${ports[engine]}`;
  });
  for (const server of servers) server.close();
  return runOf("oracle", fleet, client, undefined, undefined);
}

function runOf(
  router: string,
  states: readonly EngineState[],
  client: ClientFigures,
  cpu: number | undefined,
  rss: number | undefined,
): LiveRun {
  const lagMs = states.reduce((sum, s) => sum + s.lagSumMs / Math.max(1, s.steps), 0) / states.length;
  return {
    router,
    engine: qualityFigures(
      states.map(({ entries }) => entries.filter(({ promptTokens }) => promptTokens > WARM_UP_TOKENS)),
    ),
    client,
    busy: states.map(({ busyMs }) => busyMs / 1000 / client.seconds),
    lagMs,
    valid: lagMs < LAG_LIMIT_MS && client.lateP99 < LATE_LIMIT_MS && client.failed === 0,
    cpuMs: cpu,
    rssMb: rss,
  };
}

function start(argv: readonly string[], folder: string): ChildProcess {
  const [program, ...args] = argv;
  // Peers look for a tokenizer on the hub; there is none for this model.
  const env = { ...process.env, HF_HUB_OFFLINE: "1", HF_ENDPOINT: "http://127.0.0.1:1", HOME: folder };
  return spawn(program!, args, {
    stdio: ["ignore", "ignore", process.env["CGN_BENCH_LOGS"] ? "inherit" : "ignore"],
    env,
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await Promise.race([ended, sleep(3_000)]);
  child.kill("SIGKILL");
}

async function warmUp(url: string, name: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  await until(async () => {
    const body = chatBody(`warm up ${Math.random()}`, 1);
    const res = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    await res.arrayBuffer();
    return res.ok;
  }, name);
}

async function until(done: () => Promise<boolean>, what: string): Promise<void> {
  const limit = performance.now() + START_LIMIT_MS;
  while (performance.now() < limit) {
    if (await done().catch(() => false)) return;
    await sleep(200);
  }
  throw new Error(`${what} did not get ready within ${START_LIMIT_MS / 1000} s`);
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A vocabulary of the 256 bytes, each with its value as id, and a template that is the content alone. */
function writeByteTokenizer(folder: string): void {
  const printable = [...range(33, 126), ...range(161, 172), ...range(174, 255)];
  const vocabulary: Record<string, number> = {};
  let next = 256;
  // The byte-level alphabet of GPT-2: a byte that cannot be printed stands as a letter from U+0100 on.
  for (let byte = 0; byte < 256; byte++) {
    vocabulary[String.fromCharCode(printable.includes(byte) ? byte : next++)] = byte;
  }
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  const tokenizer = {
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: vocabulary, merges: [] },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  const template = "{% for message in messages %}{{ message['content'] }}{% endfor %}";
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ chat_template: template }));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type: "llama", vocab_size: 256 }));
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise<typeof server>((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
    }),
  );
  return servers.map((server) => {
    const { port } = server.address() as { readonly port: number };
    server.close();
    return port;
  });
}

/** User and system time of processes and the threads in them. Linux only. */
function cpuMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return sum + (Number(fields[11]) + Number(fields[12])) * 10;
  }, 0);
}

function rssMb(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const [, kb = "0"] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return sum + Number(kb) / 1024;
  }, 0);
}
