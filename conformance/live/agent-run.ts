import { spawn } from "node:child_process";
import {
  cpSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Places, ROOT } from "../places.ts";

/** Marks every process of one run in its environment, so that an orphan is found wherever it hangs. */
const MARK = "CGN_CONFORMANCE_RUN";

const START_MS = 420_000;
const STOP_MS = 90_000;

export interface AgentRun {
  /** Seconds from the start of the agent until every engine was ready. */
  readonly startSeconds: number;
  /** `up` only: where the router takes requests, and its admin port. */
  readonly router: { readonly url: string; readonly admin: string };
  /** End the agent as a supervisor does. @throws Error when it does not end cleanly, or leaves a process */
  stop(): Promise<void>;
}

/** `count` ports that were free a moment ago. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((s) => new Promise<void>((resolve) => s.listen(0, "127.0.0.1", resolve))));
  const ports = servers.map((s) => (s.address() as { port: number }).port);
  await Promise.all(servers.map((s) => new Promise((resolve) => s.close(resolve))));
  return ports;
}

/**
 * Start `cgn agent` on a file, as users do, and wait until each of its engines is ready.
 *
 * @param engines - TOML of the models and engines; the agent's own section is written here
 * @param command - `up`: a router before the engines, in the same process
 * @throws Error with the last words of the log when an engine does not become ready
 */
export async function startAgent(
  name: string,
  engines: string,
  places: Places,
  env: Readonly<Record<string, string>> = {},
  command: "agent" | "up" = "agent",
): Promise<AgentRun> {
  const dir = mkdtempSync(join(tmpdir(), "cgn-live-"));
  const [listen = 0, admin = 0, http = 0, routerAdmin = 0, kv = 0] = await freePorts(5);
  const config = join(dir, "cgn.toml");
  const router = { url: `http://127.0.0.1:${http}`, admin: `http://127.0.0.1:${routerAdmin}` };
  const routed = command === "up" ? routerToml(dir, http, routerAdmin, kv) : "";
  writeFileSync(config, `${agentToml(dir, listen, admin)}\n${routed}${engines}`);
  const mark = `${process.pid}-${name}`;
  mkdirSync(join(places.root, "logs"), { recursive: true });
  const log = places.log(`live-${name}`);
  const started = Date.now();
  const entry = join(ROOT, "src", "cli", "bin", "cgn.ts");
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", entry, command, "--config", config], {
    cwd: dir,
    env: { ...process.env, ...env, NO_COLOR: "1", [MARK]: mark },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const file = createWriteStream(log);
  for (const stream of [child.stdout, child.stderr]) stream.pipe(file, { end: false });
  const ended = new Promise<number>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? (signal === null ? 1 : 137))),
  );

  // Whoever ends this command ends the engines first.
  const interrupted = (): void => {
    child.kill("SIGTERM");
    void ended.then(() => process.exit(130));
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, interrupted);

  const stop = async (): Promise<void> => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, interrupted);
    child.kill("SIGTERM");
    const code = await Promise.race([ended, pause(STOP_MS).then(() => undefined)]);
    if (code === undefined) child.kill("SIGKILL");
    const left = await leftBehind(mark);
    for (const { pid } of left) process.kill(pid, "SIGKILL");
    const kept = join(places.root, "logs", `live-${name}`);
    rmSync(kept, { recursive: true, force: true });
    cpSync(join(dir, "logs"), kept, { recursive: true });
    rmSync(dir, { recursive: true, force: true });
    if (code === undefined) throw new Error(`cgn agent did not end within ${STOP_MS / 1000} s`);
    if (code !== 143 && code !== 0) throw new Error(`cgn agent ended with ${code}: ${lastWords(log)}`);
    if (left.length > 0)
      throw new Error(`left behind: ${left.map(({ pid, command }) => `${pid} ${command}`).join(", ")}`);
  };
  try {
    await ready(() => (command === "up" ? workersOf(router.admin) : readyz(admin)), ended, log);
  } catch (error) {
    const engineLogs = engineWords(dir);
    await stop().catch(() => {});
    throw new Error(`${error instanceof Error ? error.message : String(error)}${engineLogs}`);
  }
  return { startSeconds: (Date.now() - started) / 1000, router, stop };
}

function agentToml(dir: string, listen: number, admin: number): string {
  return `[agent]
node_id = "conformance"
listen = "127.0.0.1:${listen}"
listen_admin = "127.0.0.1:${admin}"
kv_uds = ${JSON.stringify(join(dir, "kv.sock"))}
state_dir = ${JSON.stringify(dir)}
log_dir = ${JSON.stringify(join(dir, "logs"))}
platform = "cpu"
ready_timeout = "${START_MS / 1000}s"
drain_grace = "20s"
`;
}

function routerToml(dir: string, http: number, admin: number, kv: number): string {
  return `[router]
listen_http = "127.0.0.1:${http}"
listen_admin = "127.0.0.1:${admin}"
[kv]
uds = ${JSON.stringify(join(dir, "kv.sock"))}
listen = "127.0.0.1:${kv}"
index_dir = ${JSON.stringify(join(dir, "index"))}
`;
}

async function ready(
  look: () => Promise<readonly { state: string }[]>,
  ended: Promise<number>,
  log: string,
): Promise<void> {
  const end = Date.now() + START_MS;
  let code: number | undefined;
  void ended.then((c) => {
    code = c;
  });
  while (Date.now() < end) {
    if (code !== undefined) throw new Error(`cgn agent ended with ${code}: ${lastWords(log)}`);
    const engines = await look();
    if (engines.length > 0 && engines.every(({ state }) => state === "ready")) return;
    await pause(500);
  }
  throw new Error(`not ready within ${START_MS / 1000} s: ${lastWords(log)}`);
}

async function readyz(admin: number): Promise<readonly { state: string }[]> {
  try {
    const reply = await fetch(`http://127.0.0.1:${admin}/readyz`);
    return ((await reply.json()) as { engines: { state: string }[] }).engines;
  } catch {
    return [];
  }
}

/** The engines as a router sees them; none while it does not answer. */
export async function workersOf(
  admin: string,
): Promise<readonly { id: string; role: string; state: string; url: string }[]> {
  try {
    const reply = await fetch(`${admin}/v1/cgn/status`);
    return ((await reply.json()) as { workers: { id: string; role: string; state: string; url: string }[] }).workers;
  } catch {
    return [];
  }
}

/** Processes that still carry the mark, 3 s after the agent has gone. Zombies are gone. */
async function leftBehind(mark: string): Promise<{ pid: number; command: string }[]> {
  let left = marked(mark);
  for (let tries = 0; left.length > 0 && tries < 30; tries++) {
    await pause(100);
    left = marked(mark);
  }
  return left;
}

function marked(mark: string): { pid: number; command: string }[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      if (!readFileSync(`/proc/${name}/environ`, "utf8").split("\0").includes(`${MARK}=${mark}`)) return [];
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0").slice(0, 4).join(" ");
      return [{ pid: Number(name), command }];
    } catch {
      return []; // It ended, or is somebody else's.
    }
  });
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function lastWords(log: string): string {
  return tail(log, 6);
}

function tail(path: string, lines: number): string {
  try {
    return readFileSync(path, "utf8").trim().split("\n").slice(-lines).join(" | ").slice(-1500);
  } catch {
    return "";
  }
}

function engineWords(dir: string): string {
  try {
    const logs = readdirSync(join(dir, "logs"), { recursive: true }).map(String);
    return logs.map((file) => `\n${file}: ${tail(join(dir, "logs", file), 6)}`).join("");
  } catch {
    return "";
  }
}
