// npm run test:soak [-- MINUTES] [--seed N]: the router at half of what its engines can do while engines are killed at random (SIGKILL)
// and started again. Every word of every answer is compared. Ends with 1 when one was lost or hung, when memory grew, or when
// bookings or connections are left.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { askOnce, type SoakEnd } from "./soak-client.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: "string", default: "1" } },
});
const minutes = Number(positionals[0] ?? 20);
const ENGINES = 4;
const SLOTS = 8;
const TOKEN_MS = 25;
const MEAN_TOKENS = 60;
/** Requests a second: half of what all slots do when none waits. */
const RATE = (ENGINES * SLOTS * 1_000) / (TOKEN_MS * MEAN_TOKENS) / 2;

let seed = Number(values.seed) >>> 0;
function random(): number {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
}
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const here = (file: string): string => new URL(file, import.meta.url).pathname;

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

const startEngine = (port: number): ChildProcess =>
  spawn(process.execPath, [here("soak-engine.ts"), String(port), String(SLOTS), String(TOKEN_MS)], {
    stdio: ["ignore", "ignore", "inherit"],
  });

interface Soaked {
  readonly router: ChildProcess;
  readonly url: string;
  readonly admin: string;
  readonly engines: ChildProcess[];
  readonly ports: readonly number[];
}

async function start(folder: string): Promise<Soaked> {
  const ports = await Promise.all(Array.from({ length: ENGINES + 2 }, freePort));
  const [port, adminPort, ...enginePorts] = ports as [number, number, ...number[]];
  const engines = enginePorts.map(startEngine);
  const config = join(folder, "cgn.toml");
  writeFileSync(
    config,
    '[router]\ncontinue_streams = true\n\n[engine]\nkind = "openai_compat"\nurl = "http://127.0.0.1:1"\n',
  );
  const args = ["router", "--config", config, "--log-level", "error", "--listen", `127.0.0.1:${port}`];
  args.push("--admin", `127.0.0.1:${adminPort}`);
  for (const engine of enginePorts)
    args.push("--engine", `http://127.0.0.1:${engine},kind=vllm,model=m,tokenizer=bytes`);
  const router = spawn(process.execPath, [here("../../src/cli/bin/cgn.ts"), ...args], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const admin = `http://127.0.0.1:${adminPort}`;
  for (let i = 0; ; i++) {
    const ready = await fetch(`${admin}/readyz`).then(
      (res) => res.json(),
      () => undefined,
    );
    if ((ready as { models?: { m?: { ready: number } } } | undefined)?.models?.m?.ready === ENGINES) break;
    if (i === 600 || router.exitCode !== null) throw new Error("the router did not get ready");
    await sleep(100);
  }
  return { router, url: `http://127.0.0.1:${port}`, admin, engines, ports: enginePorts };
}

const pidOf = ({ router }: Soaked): number => router.pid!;
const fdsOf = (soaked: Soaked): number => readdirSync(`/proc/${pidOf(soaked)}/fd`).length;
const rssOf = (soaked: Soaked): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pidOf(soaked)}/status`, "utf8"))?.[1]) / 1024;

/** What the router's heap and buffers hold; right after a collection it is what lives. */
async function heldOf({ admin }: Soaked): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const of = (name: string): number => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
  return (of("nodejs_heap_size_used_bytes") + of("nodejs_external_memory_bytes")) / 1024 ** 2;
}

let kills = 0;
let over = false;

/** One engine at a time is killed, and is away for up to five seconds. */
async function killAtRandom(soaked: Soaked): Promise<void> {
  while (!over) {
    await sleep(3_000 + random() * 9_000);
    if (over) return;
    const at = Math.floor(random() * ENGINES);
    soaked.engines[at]!.kill("SIGKILL");
    kills++;
    await sleep(random() * 5_000);
    soaked.engines[at] = startEngine(soaked.ports[at]!);
  }
}

/** What the admin port shows as still under way. */
async function leftOver({ admin }: Soaked): Promise<string[]> {
  const { workers, models } = (await (await fetch(`${admin}/v1/cgn/status`)).json()) as {
    workers: { id: string; load: { inFlight: number; queuedTokens: number; streams: number } }[];
    models: { running: number; queued: number }[];
  };
  const left = workers
    .filter(({ load }) => load.inFlight + load.queuedTokens + load.streams > 0)
    .map(({ id, load }) => `${id} ${JSON.stringify(load)}`);
  for (const { running, queued } of models)
    if (running + queued > 0) left.push(`model: ${running} run, ${queued} wait`);
  return left;
}

async function soak(soaked: Soaked): Promise<void> {
  const ends: Record<SoakEnd["type"], number> = { ok: 0, left: 0, hung: 0, lost: 0 };
  const lost: string[] = [];
  const memory: number[] = [];
  const pending = new Set<Promise<void>>();
  const started = performance.now();
  const untilMs = started + minutes * 60_000;
  const killing = killAtRandom(soaked);
  let n = 0;
  let sampleMs = started;
  while (performance.now() < untilMs) {
    await sleep((-Math.log(1 - random()) / RATE) * 1_000);
    const draw = random();
    const way = draw < 0.4 ? "whole" : draw < 0.95 ? "stream" : "leave";
    const tokens = 20 + Math.floor(random() * 2 * (MEAN_TOKENS - 20));
    const one = askOnce(soaked.url, n++, way, tokens).then((end) => {
      ends[end.type]++;
      if (end.type === "lost") {
        lost.push(end.how);
        process.stderr.write(`lost: ${end.how}\n`);
      }
      pending.delete(one);
    });
    pending.add(one);
    if (performance.now() < sampleMs) continue;
    sampleMs += 5_000;
    memory.push(await heldOf(soaked));
    if (memory.length % 12 === 0)
      process.stderr.write(
        `${memory.length / 12} min: ${JSON.stringify(ends)}, ${kills} kills, ${rssOf(soaked).toFixed(0)} MiB\n`,
      );
  }
  over = true;
  await Promise.all(pending);
  await killing;
  await sleep(2_000);
  const left = await leftOver(soaked);
  const { metrics, fds } = { metrics: await (await fetch(`${soaked.admin}/metrics`)).text(), fds: fdsOf(soaked) };
  const sum = (name: string): number =>
    [...metrics.matchAll(new RegExp(`^${name}\\{.*\\} (\\d+)$`, "gm"))].reduce((total, [, v]) => total + Number(v), 0);
  const quarter = Math.max(1, memory.length >> 2);
  // Between collections memory grows as it may; the least that was held is what lives.
  const before = Math.min(...memory.slice(quarter, 2 * quarter));
  const after = Math.min(...memory.slice(-quarter));
  const flat = after - before < Math.max(8, before * 0.1);
  const result = {
    minutes: (performance.now() - started) / 60_000,
    requests: n,
    ...ends,
    kills,
    retried: sum("cgn_router_retries_total"),
    continued: sum("cgn_router_continued_total"),
    breakersOpened: sum("cgn_router_breaker_opened_total"),
    heldMiB: { secondQuarter: before, lastQuarter: after, flat },
    rssMiB: rssOf(soaked),
    leftOver: left,
    fds,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  process.exitCode = ends.lost + ends.hung + left.length > 0 || !flat ? 1 : 0;
}

const folder = mkdtempSync(join(tmpdir(), "cgn-soak-"));
let soaked: Soaked | undefined;
try {
  soaked = await start(folder);
  await soak(soaked);
} finally {
  soaked?.router.kill("SIGKILL");
  for (const engine of soaked?.engines ?? []) engine.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
