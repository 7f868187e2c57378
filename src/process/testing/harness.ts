import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../core/clock.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { SILENT_LOG } from "../../core/log.ts";
import { type PlanSpec, type PlanSupervisor, supervisePlan } from "../plan-supervisor.ts";
import type { ProcessStatus } from "../process-spec.ts";

const FAKE_ENGINE = fileURLToPath(new URL("fake-engine.mjs", import.meta.url));

/** The real clock. */
export const CLOCK: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

/**
 * Ports below those that systems give to outgoing connections, and beside engines' side ports: what was free a moment ago stays so.
 * Test processes that run at the same time have ranges of their own.
 */
const POOL = Number(process.env["VITEST_POOL_ID"] ?? 7) % 8;
let nextPort = 3_000 + POOL * 850 + ((process.pid * 37) % 500);

/** Ports of that range to which `fetch()` does not connect (https://fetch.spec.whatwg.org/#port-blocking). */
const BLOCKED: ReadonlySet<number> = new Set([
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
]);

/** A port that nobody listens at. None is given out twice by one process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort++;
    if (!BLOCKED.has(port) && (await isFree(port))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

/** Does a process run? A zombie does not. */
export function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return process.platform !== "linux" && (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

/** Wait until something holds, at most `ms`. @throws Error with the name when it does not */
export async function until(name: string, holds: () => boolean, ms = 5_000): Promise<void> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`after ${ms} ms still not: ${name}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A launch plan that runs the fake engine with these flags. */
export function fakePlan(port: number, flags: readonly string[], over: Partial<LaunchPlan> = {}): LaunchPlan {
  return {
    version: 1,
    engine: "vllm",
    kvOffload: "none",
    role: "both",
    model: "m",
    url: `http://127.0.0.1:${port}`,
    argv: [process.execPath, FAKE_ENGINE, "--port", String(port), ...flags],
    env: {},
    files: [],
    ports: [{ name: "http", port }],
    ready: { path: "/health", timeoutMs: 10_000 },
    stop: { graceMs: 2_000, drainsOnSigterm: true },
    sidecars: [],
    requires: [],
    warnings: [],
    reasons: [],
    ...over,
  };
}

export interface Lab {
  readonly dir: string;
  /** Supervise a plan; all that were made are stopped by `close()`. */
  supervise(
    plan: LaunchPlan,
    over?: Partial<PlanSpec>,
    onChange?: (status: ProcessStatus) => void,
  ): PlanSupervisor & { readonly seen: ProcessStatus[] };
  close(): Promise<void>;
}

/** A scratch folder and the supervisors of one test. */
export async function openLab(): Promise<Lab> {
  const dir = await mkdtemp(join(tmpdir(), "cgn-process-"));
  const made: PlanSupervisor[] = [];
  return {
    dir,
    supervise(plan, over = {}, also = () => {}) {
      const seen: ProcessStatus[] = [];
      const spec: PlanSpec = {
        name: "n/e0",
        plan,
        verdict: ({ status }) => (status === 200 ? "ready" : status === 500 ? "failed" : "loading"),
        drainGraceMs: 1_000,
        env: process.env,
        logDir: join(dir, "log"),
        ...over,
        policy: { backoffMs: 20, ...over.policy },
      };
      const onChange = (status: ProcessStatus): void => {
        seen.push(status);
        also(status);
      };
      const supervisor = supervisePlan(spec, { clock: CLOCK, random: () => 0.5, log: SILENT_LOG, onChange });
      made.push(supervisor);
      return Object.assign(supervisor, { seen });
    },
    async close() {
      await Promise.all(made.map((supervisor) => supervisor.stop()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A pid that the fake engine printed: `engine` its own, `child` its child's. */
export function printedPid(supervisor: PlanSupervisor, who: "engine" | "child"): number {
  const line = supervisor.tail(100).find((text) => text.startsWith(`${who} `));
  return Number(line?.split(" ")[1] ?? 0);
}

/** Pids of running processes (zombies do not run) whose command line has this text in it. */
export function pidsWith(text: string): number[] {
  if (process.platform !== "linux") {
    const table = execFileSync("ps", ["-axo", "pid=,args="], { encoding: "utf8" }).split("\n");
    return table.filter((line) => line.includes(text)).map((line) => Number.parseInt(line, 10));
  }
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && commandLine(name).includes(text) && runs(Number(name)))
    .map(Number);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
