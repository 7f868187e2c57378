import { type ChildProcess, fork, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { ROUTERS } from "./quality/routers.ts";

/** A proxy under test: its address and the processes whose CPU time and memory count. */
export interface Target {
  readonly name: string;
  readonly url: string;
  readonly pids: readonly number[];
  /** Where its own metrics are, where it has them. */
  readonly admin?: string;
}

/** Fake engines and proxies before them; all end with `close()`. */
export interface Bed {
  readonly upstreams: readonly string[];
  readonly targets: readonly Target[];
  /** Peers that were asked for and are not installed. */
  readonly missing: readonly string[];
  close(): void;
}

const ENGINES = 2;
const START_LIMIT_MS = 60_000;
const here = (file: string): string => new URL(file, import.meta.url).pathname;

/** What is compared with where nothing is named, as far as it is installed. */
export const DEFAULT_PEERS = ["bare", "smg-cache-aware", "vllm-router-cache-aware"] as const;

/**
 * Start two fake engines, the router, and what it is compared with.
 *
 * @param against `bare` (node:http before undici, no routing), `cgn-N-threads`, names of `bench/quality/routers.ts`, or `NAME=URL,PID` of one that
 * runs already before engines of its own
 * @param engine arguments of the fake engines after the port: events of a stream, milliseconds between them
 */
export async function startBed(against: readonly string[], engine: readonly number[] = []): Promise<Bed> {
  const children: ChildProcess[] = [];
  const close = (): void => {
    for (const child of children) child.kill("SIGKILL");
  };
  try {
    const ports = await freePorts(ENGINES);
    for (const port of ports) children.push(await forked(here("proxy-upstream.ts"), [port, ...engine].map(String)));
    const upstreams = ports.map((port) => `http://127.0.0.1:${port}`);
    const targets: Target[] = [];
    const missing: string[] = [];
    for (const name of ["cgn", ...against]) {
      if (name.includes("=")) targets.push(parseTarget(name));
      else {
        const target = await startTarget(name, upstreams, children);
        if (target === undefined) missing.push(name);
        else targets.push(target);
      }
    }
    return { upstreams, targets, missing, close };
  } catch (e) {
    close();
    throw e;
  }
}

async function startTarget(
  name: string,
  urls: readonly string[],
  children: ChildProcess[],
): Promise<Target | undefined> {
  const [port, admin, ...events] = await freePorts(2 + ENGINES);
  const threads = /^cgn-(\d+)-threads$/.exec(name)?.[1];
  const env = threads === undefined ? OFFLINE : { ...OFFLINE, CGN__ROUTER__WORKER_THREADS: threads };
  const argv = commandOf(threads === undefined ? name : "cgn", { urls, events, port: port!, admin: admin! });
  if (argv.length > 1 && !existsSync(argv[0]!)) return undefined;
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(argv[0]!, argv.slice(1), { stdio: ["ignore", "ignore", "pipe"], env });
  children.push(child);
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => void (said = (said + chunk.toString()).slice(-4_000)));
  for (const untilMs = Date.now() + START_LIMIT_MS; Date.now() < untilMs && child.exitCode === null; ) {
    if (await answers(url)) return { name, url, pids: [child.pid!], admin: `http://127.0.0.1:${admin}` };
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`${name} did not get ready: ${said}`);
}

/** No peer may load anything from the net. */
const OFFLINE = { ...process.env, HF_HUB_OFFLINE: "1", HF_ENDPOINT: "http://127.0.0.1:1" };

interface Places {
  readonly urls: readonly string[];
  readonly events: readonly number[];
  readonly port: number;
  readonly admin: number;
}

function commandOf(name: string, places: Places): readonly string[] {
  const { urls, events, port, admin } = places;
  if (name === "bare") return [process.execPath, here("proxy-bare.ts"), String(port), ...urls];
  // Event sources that never speak: knowledge by events, so that a request pays for its match and not for a history's upkeep.
  const router = ROUTERS.find((each) => each.name === name);
  if (router === undefined) throw new Error(`Cannot compare with "${name}": it is none of bench/quality/routers.ts`);
  // Warnings about the event sources that are silent on purpose are no result.
  const quiet = name.startsWith("cgn") ? ["--log-level", "error"] : [];
  const all = router.commands([{ urls, events, port, admin, spare: 0, tokenizer: "bytes" }]);
  return [...all[0]!.filter((_word, i, argv) => quiet.length === 0 || !isLogLevel(argv, i)), ...quiet];
}

const isLogLevel = (argv: readonly string[], i: number): boolean =>
  argv[i] === "--log-level" || argv[i - 1] === "--log-level";

async function answers(url: string): Promise<boolean> {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] });
  const headers = { "content-type": "application/json" };
  const sent = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers,
    body,
    signal: AbortSignal.timeout(2_000),
  });
  return sent.then(
    async (response) => (await response.text()) !== "" && response.ok,
    () => false,
  );
}

function parseTarget(text: string): Target {
  const [, name, url, pids] = /^([^=]+)=(https?:\/\/[^,]+),(\d+(?:,\d+)*)$/.exec(text) ?? [];
  if (name === undefined || url === undefined || pids === undefined) {
    throw new Error(`Cannot read --against "${text}": it is neither a name nor NAME=URL,PID`);
  }
  return { name, url, pids: pids.split(",").map(Number) };
}

/** Start a module in a process of its own and wait for its first message. */
export function forked(file: string, args: readonly string[] = []): Promise<ChildProcess> {
  const child = fork(file, args);
  return new Promise((resolve, reject) => {
    child.once("message", () => resolve(child));
    child.once("exit", () => reject(new Error(`${file} did not start`)));
  });
}

/** User and system time of processes and their children, in microseconds. Linux: /proc counts in ticks of 10 ms. */
export function cpuUs(pids: readonly number[]): number {
  return sum(pids, (pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command may hold spaces: cut at its last bracket.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10_000;
  });
}

/** Resident memory of processes and their children, in MB. */
export function rssMb(pids: readonly number[]): number {
  return sum(pids, (pid) => {
    const kb = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return Number(kb ?? 0) / 1024;
  });
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid) + sum(childrenOf(pid), of), 0);
}

function childrenOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const texts = threads.map((thread) => {
    const file = `/proc/${pid}/task/${thread}/children`;
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  });
  return texts.join(" ").split(" ").filter(Boolean).map(Number);
}

export async function freePorts(count: number): Promise<number[]> {
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
