import { mkdirSync, readFileSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { get } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PlanSpec, PlanSupervisor } from "../plan-supervisor.ts";
import type { ProcessStatus } from "../process-spec.ts";
import { fakePlan, freePort, openLab, pidsWith, runs, until } from "./harness.ts";

const WILD_ENGINE = fileURLToPath(new URL("wild-engine.mjs", import.meta.url));

/** What one randomised run came to. */
export interface WildRun {
  readonly seed: number;
  /** Engine processes that were started, and agents that took over from one before (`keep_engines`). */
  readonly starts: number;
  readonly handovers: number;
  /** How often it was ready, and requests that were sent to it then. */
  readonly admissions: number;
  readonly requests: number;
  /** Each broken promise, in words. */
  readonly violations: readonly string[];
}

/** Clock of the journal: the same in every process of the host. */
const nowMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

/** Everything quick, so that a run of two seconds sees many lives. */
const SPEC: Partial<PlanSpec> = {
  drainGraceMs: 100,
  answerMs: 300,
  healthEveryMs: 60,
  logBounds: { fileBytes: 200_000, files: 3 },
  policy: { backoffMs: 20, backoffMaxMs: 200, stableMs: 500, sickMs: 300, hungMs: 600 },
};

const STOP_MS = 15_000;
const GONE_MS = 5_000;

/** A generator of numbers in [0, 1) that a seed decides (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Change {
  readonly at: number;
  readonly state: ProcessStatus["at"];
  readonly pid: number | undefined;
  readonly epoch: number;
}

/**
 * Let a supervisor keep an engine that ignores SIGTERM, dies, answers late, leaks children and fills its log, while somebody starts,
 * stops and kills at random, and a router sends requests whenever it is told to. Every third seed has `keep_engines` and agents that
 * come and go.
 * @param ms how long somebody acts
 */
export async function runWild(seed: number, ms = 3_000): Promise<WildRun> {
  const random = seeded(seed * 2_654_435_761 + 17);
  const lab = await openLab();
  const slot = join(lab.dir, "slot");
  mkdirSync(slot);
  const mark = `cgn-wild-${process.pid}-${seed}-x`;
  const port = await freePort();
  const keeps = seed % 3 === 0;
  const plan = fakePlan(port, [], {
    argv: [process.execPath, WILD_ENGINE, "--port", `${port}`, "--slot", slot, "--seed", `${seed}`, "--mark", mark],
    ready: { path: "/health", timeoutMs: 4_000 },
    stop: { graceMs: 300, drainsOnSigterm: random() < 0.5 },
  });
  const changes: Change[] = [];
  const supervise = (): PlanSupervisor =>
    lab.supervise(
      plan,
      { ...SPEC, ...(keeps ? { keepIn: join(lab.dir, "kept") } : {}) },
      ({ at: state, pid, epoch }) => void changes.push({ at: nowMs(), state, pid, epoch }),
    );
  let engine = supervise();
  let handovers = 0;
  let requests = 0;
  const router = setInterval(() => {
    const { at, pid } = engine.status();
    if (at !== "ready" || pid === undefined) return;
    requests++;
    const request = get({ host: "127.0.0.1", port, path: "/work", headers: { "x-pid": `${pid}` }, timeout: 500 });
    request.on("response", (response) => response.resume()).on("error", () => {});
    request.on("timeout", () => request.destroy());
  }, 5);

  const end = performance.now() + ms;
  engine.start();
  while (performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 20 + random() ** 2 * 1_200));
    if (keeps && random() < 0.2) {
      await engine.release();
      engine = supervise();
      engine.start();
      handovers++;
    } else await act(engine, random, mark);
  }
  clearInterval(router);
  const violations: string[] = [];
  const stopped = await Promise.race([
    engine.stop().then(() => true),
    new Promise<false>((resolve) => setTimeout(resolve, STOP_MS, false)),
  ]);
  if (!stopped) violations.push(`stop() has not settled after ${STOP_MS} ms (${engine.status().at})`);
  if (engine.status().pid !== undefined) violations.push("stop() has settled and there is a process");
  await until("gone", () => pidsWith(mark).length === 0, GONE_MS).catch(() => {
    violations.push(`left behind: ${pidsWith(mark).join(", ")}`);
  });
  violations.push(...(await logViolations(join(lab.dir, "log"), keeps)));
  const journal = readJournal(slot);
  violations.push(...journalViolations(journal, changes), ...epochViolations(changes));
  for (const pid of pidsWith(mark)) process.kill(pid, "SIGKILL");
  await lab.close();
  return {
    seed,
    starts: journal.filter(({ what }) => what === "start").length,
    handovers,
    admissions: changes.filter(({ state }, i) => state === "ready" && changes[i - 1]?.state !== "ready").length,
    requests,
    violations,
  };
}

/** One thing that somebody does. Stops are not always waited for. */
async function act(engine: PlanSupervisor, random: () => number, mark: string): Promise<void> {
  const { pid } = engine.status();
  const kill = (target: number | undefined, signal: NodeJS.Signals): void => {
    if (target === undefined || !runs(target)) return;
    try {
      process.kill(target, signal);
    } catch {
      // It went meanwhile.
    }
  };
  const some = (pids: readonly number[]): number | undefined => pids[Math.floor(random() * pids.length)];
  const what = random();
  if (what < 0.35) engine.start();
  else if (what < 0.55) {
    const drainMs = [undefined, 0, 100][Math.floor(random() * 3)];
    const ended = engine.stop(drainMs === undefined ? {} : { drainMs });
    if (random() < 0.5) await ended;
    if (random() < 0.8) engine.start();
  } else if (what < 0.7) kill(pid, "SIGKILL");
  else if (what < 0.78) kill(pid, "SIGSTOP");
  else if (what < 0.86) kill(pid, "SIGCONT");
  else if (what < 0.93) kill(some(pidsWith(mark)), "SIGKILL");
  else if (pid !== undefined) kill(some(pidsWith(`cgn-guard ${pid} `)), "SIGKILL");
}

interface Entry {
  readonly at: number;
  readonly pid: number;
  readonly what: string;
}

function readJournal(slot: string): Entry[] {
  try {
    const lines = readFileSync(join(slot, "journal"), "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line) as Entry);
  } catch {
    return [];
  }
}

/** What the engines themselves saw go wrong, and SIGTERMs that came while routers could still send. */
function journalViolations(journal: readonly Entry[], changes: readonly Change[]): string[] {
  const seen = journal.filter(({ what }) => /^(second process|routed to|port:)/.test(what));
  const early = journal.filter(({ what, pid, at }) => {
    if (what !== "SIGTERM") return false;
    const before = changes.findLast((change) => change.at <= at);
    return before?.state === "ready" && before.pid === pid;
  });
  return [
    ...seen.map(({ pid, what }) => `${what} (seen by ${pid})`),
    ...early.map(({ pid }) => `SIGTERM to ${pid} while it was ready`),
  ];
}

/** Each process has an epoch of its own, above all before. */
function epochViolations(changes: readonly Change[]): string[] {
  const found: string[] = [];
  const pidOf = new Map<number, number>();
  let highest = 0;
  for (const { state, pid, epoch } of changes) {
    if (state !== "ready" || pid === undefined) continue;
    const known = pidOf.get(epoch);
    if (known !== undefined && known !== pid) found.push(`epoch ${epoch} of ${known} and of ${pid}`);
    if (known === undefined && epoch <= highest) found.push(`epoch ${epoch} after ${highest}`);
    pidOf.set(epoch, pid);
    highest = Math.max(highest, epoch);
  }
  return found;
}

/** What an engine writes itself is bounded every two seconds only. */
async function logViolations(dir: string, direct: boolean): Promise<string[]> {
  const { fileBytes, files } = SPEC.logBounds!;
  const names = await readdir(dir).catch(() => []);
  const logs = names.filter((name) => /\.log(\.\d+)?$/.test(name));
  const sizes = await Promise.all(logs.map(async (name) => (await stat(join(dir, name))).size));
  const large = direct ? [] : sizes.filter((size) => size > fileBytes);
  return [
    ...(logs.length > files ? [`${logs.length} log files of ${files}`] : []),
    ...large.map((size) => `a log of ${size} bytes, of ${fileBytes}`),
  ];
}
