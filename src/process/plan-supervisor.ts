import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { CgnError } from "../core/errors.ts";
import type { Finding } from "../core/findings.ts";
import type { LaunchPlan, PlanFile, PlanSidecar } from "../core/launch-plan.ts";
import type { Look, Verdict } from "./health.ts";
import { pidFileOf } from "./kept-engines.ts";
import type { Policy } from "./lifecycle.ts";
import { DEFAULT_LOG_BOUNDS, type LogBounds } from "./log-bounds.ts";
import { type KeptNote, launchFingerprint } from "./pid-file.ts";
import { type PreflightInput, preflight, requireCommand } from "./preflight.ts";
import { type HttpReply, probeHttp } from "./probe.ts";
import type { ProcessSpec, ProcessStatus, SupervisorDeps } from "./process-spec.ts";
import { resolveEnv } from "./secret-env.ts";
import { StallWatch, type WorkFigures } from "./stall-watch.ts";
import type { StopRequest } from "./stop-request.ts";
import { Supervisor } from "./supervisor.ts";

/** One launch plan to keep running on this host. */
export interface PlanSpec {
  /** The worker's id; also names its files. */
  readonly name: string;
  readonly plan: LaunchPlan;
  readonly verdict: (reply: HttpReply) => "ready" | "loading" | "failed";
  /** Wins over the plan's URL and path: `[agent].ready_probe_url`. Any 2xx is ready then. */
  readonly probeUrl?: string;
  /** How long a ready engine may take for an answer before the look counts as silent, in milliseconds. Default 3,000. */
  readonly answerMs?: number;
  /** Asked of a ready engine in place of a readiness probe that computes: any answer at all shows that it is not hung. */
  readonly alivePath?: string;
  /** Where its metrics tell whether it computes; a ready engine that does not for `timeoutMs` is sick. 0: never. */
  readonly work?: {
    readonly url: string;
    readonly timeoutMs: number;
    readonly apiKey?: string;
    readonly parse: (text: string) => WorkFigures;
  };
  /** Milliseconds between looks at a ready engine. Default 5,000. */
  readonly healthEveryMs?: number;
  /** How long requests may end before SIGTERM, for engines that cut them on it. */
  readonly drainGraceMs: number;
  readonly drained?: (signal: AbortSignal) => Promise<void>;
  /** The environment that the plan's is laid over. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where secrets of the plan that name a variable are looked up. Default: `env`. */
  readonly secrets?: Readonly<Record<string, string | undefined>>;
  readonly logDir: string;
  readonly logBounds?: LogBounds;
  /** `oom_score_adj` of the engine and its sidecars. */
  readonly oomScoreAdj?: number;
  /** Folder of pid files: processes outlive the agent and are found again. Absent: guarded. */
  readonly keepIn?: string;
  /** What the pid files say of whose they are. */
  readonly keptAs?: Pick<KeptNote, "node" | "kind" | "url" | "gpus">;
  readonly policy?: Partial<Policy>;
  /** Epochs of its processes are above this. Default 0. */
  readonly epochAbove?: number;
  /** What the launch needs of this host besides its plan: looked at before each start. */
  readonly preflight?: Pick<PreflightInput, "needs" | "findInHub">;
}

/** An engine and its sidecars. */
export interface PlanSupervisor {
  start(): void;
  settled(): Promise<ProcessStatus>;
  /** The engine first, then its sidecars. May be started again. */
  stop(request?: StopRequest): Promise<void>;
  release(): Promise<void>;
  status(): ProcessStatus;
  tail(count: number): readonly string[];
  readonly logFile: string;
  readonly droppedLogBytes: number;
}

const LOAD_PROBE_TIMEOUT_MS = 8_000;
const ANSWER_MS = 3_000;
/** SGLang's `/health` runs a one-token request each time, so not more often. */
const HEALTH_EVERY_MS = 5_000;
const SIDECAR_GRACE_MS = 5_000;

const POLICY: Omit<Policy, "readyMs" | "drainMs" | "graceMs"> = {
  sickMs: 30_000,
  hungMs: 60_000,
  stableMs: 60_000,
  backoffMs: 250,
  backoffMaxMs: 30_000,
  maxAttempts: 6,
  firstAttempts: 3,
};

/** A worker's id as part of a file name. */
const fileNameOf = (name: string): string => name.replaceAll(/[^\w.-]+/g, "-");

/** A warning is said once, not at each start. */
function onceEach(say: (finding: Finding) => void): (finding: Finding) => void {
  const said = new Set<string>();
  return (finding) => {
    if (said.has(finding.what)) return;
    said.add(finding.what);
    say(finding);
  };
}

/** The file that a process's output goes to. */
export const logFileOf = (logDir: string, name: string): string => join(logDir, `${fileNameOf(name)}.log`);

/**
 * Keep a plan's engine running, its sidecars before it. A sidecar that dies is restarted alone; it outlives restarts of the
 * engine, for what it caches is the reason to have it.
 */
export function supervisePlan(spec: PlanSpec, deps: SupervisorDeps): PlanSupervisor {
  const { plan } = spec;
  const sidecars = plan.sidecars.map((sidecar) => superviseSidecar(spec, sidecar, deps));
  const onWarning = onceEach(({ code, what, remedy }) => deps.log.warn(`${what}. ${remedy}`, { finding: code }));
  const heldPorts = new Set(plan.sidecars.map((sidecar) => sidecar.ready.tcpPort));
  const checkWork = workCheck(spec, () => deps.clock.now());
  const engine = new Supervisor(
    {
      ...common(spec, spec.name, { ...spec.keptAs, drainMs: spec.drainGraceMs, graceMs: plan.stop.graceMs }),
      adopted: () =>
        startSidecars(sidecars).catch((error: unknown) => deps.log.warn("sidecar does not run", { error })),
      argv: plan.argv,
      ownEnv: plan.env,
      epochAbove: spec.epochAbove ?? 0,
      env: () => resolveEnv(spec.env, plan.env, spec.secrets),
      async prepare(env) {
        await preflight({ name: spec.name, plan, env, heldPorts, ...spec.preflight, onWarning });
        await writePlanFiles(plan.files);
        await startSidecars(sidecars);
      },
      check: (loading) => checkWork(loading, loading ? checkLoading(spec) : checkRunning(spec)),
      ...(plan.ready.method === "POST" && spec.alivePath === undefined
        ? {}
        : { healthEveryMs: spec.healthEveryMs ?? HEALTH_EVERY_MS }),
      policy: planPolicy(spec),
      ...(spec.drained === undefined ? {} : { drained: spec.drained }),
    },
    deps,
  );
  return {
    start: () => engine.start(),
    async settled() {
      const status = await engine.settled();
      if (status.at === "failed") await Promise.all(sidecars.map((sidecar) => sidecar.stop()));
      return status;
    },
    async stop(request) {
      const ended = engine.stop(request);
      // A start that still waits for its sidecars ends with them.
      if (engine.status().pid !== undefined) await ended;
      // It was taken back: what runs beside it stays.
      if (engine.isWanted) return;
      await Promise.all([ended, ...sidecars.map((sidecar) => sidecar.stop())]);
    },
    async release() {
      await Promise.all([engine, ...sidecars].map((process) => process.release()));
    },
    status: () => engine.status(),
    tail: (count) => engine.tail(count),
    logFile: logFileOf(spec.logDir, spec.name),
    get droppedLogBytes() {
      return engine.droppedLogBytes;
    },
  };
}

function planPolicy({ plan, drainGraceMs, policy }: PlanSpec): Policy {
  const { graceMs, secondTermMs, drainsOnSigterm } = plan.stop;
  return {
    ...POLICY,
    readyMs: plan.ready.timeoutMs,
    drainMs: drainsOnSigterm ? 0 : drainGraceMs,
    graceMs,
    ...(secondTermMs === undefined ? {} : { secondTermMs }),
    ...policy,
  };
}

/** Launch fingerprints of a plan's processes by their names. */
export function planFingerprints(name: string, plan: LaunchPlan): [string, string][] {
  const sidecars = plan.sidecars.map((each): [string, string] => [
    sidecarName(name, each),
    launchFingerprint(each.argv, each.env),
  ]);
  return [[name, launchFingerprint(plan.argv, plan.env)], ...sidecars];
}

const sidecarName = (name: string, sidecar: PlanSidecar): string => `${name}/${sidecar.name}`;

type Common = Pick<ProcessSpec, "name" | "logFile" | "logBounds" | "pidFile" | "keptAs" | "oomScoreAdj">;

function common(spec: PlanSpec, name: string, kept: Omit<KeptNote, "node" | "name">): Common {
  return {
    name,
    logFile: logFileOf(spec.logDir, name),
    logBounds: spec.logBounds ?? DEFAULT_LOG_BOUNDS,
    ...(spec.oomScoreAdj === undefined ? {} : { oomScoreAdj: spec.oomScoreAdj }),
    ...(spec.keepIn === undefined ? {} : { pidFile: pidFileOf(spec.keepIn, fileNameOf(name)) }),
    ...(spec.keptAs === undefined ? {} : { keptAs: { node: spec.keptAs.node, name, ...kept } }),
  };
}

function superviseSidecar(spec: PlanSpec, sidecar: PlanSidecar, deps: SupervisorDeps): Supervisor {
  const name = sidecarName(spec.name, sidecar);
  const log = deps.log.child({ sidecar: sidecar.name });
  return new Supervisor(
    {
      ...common(spec, name, { drainMs: 0, graceMs: SIDECAR_GRACE_MS }),
      argv: sidecar.argv,
      ownEnv: sidecar.env,
      env: () => resolveEnv(spec.env, sidecar.env, spec.secrets),
      prepare: (env) => requireCommand(name, sidecar.argv, env),
      check: async () => ((await canConnect(sidecar.ready.tcpPort)) ? "ready" : "loading"),
      policy: { ...POLICY, readyMs: sidecar.ready.timeoutMs, drainMs: 0, graceMs: SIDECAR_GRACE_MS, ...spec.policy },
    },
    { ...deps, log, onChange: ({ at, reason }) => log.info("sidecar", { state: at, reason }) },
  );
}

/** @throws CgnError of the first sidecar that cannot run */
async function startSidecars(sidecars: readonly Supervisor[]): Promise<void> {
  for (const sidecar of sidecars) sidecar.start();
  for (const sidecar of sidecars) {
    const { at, error, reason } = await sidecar.settled();
    if (at !== "ready") throw error ?? new CgnError("ENGINE_NOT_READY", `Cannot start a sidecar: ${reason}`, {});
  }
}

async function checkLoading(spec: PlanSpec): Promise<Verdict> {
  const { method, timeoutMs } = spec.plan.ready;
  // A probe that computes waits for the load: to cut it would leave one more request behind at each look.
  const reply = await probeReady(spec, method === "POST" ? timeoutMs : LOAD_PROBE_TIMEOUT_MS);
  return judgeReply(spec, reply);
}

async function checkRunning(spec: PlanSpec): Promise<Verdict> {
  const { plan, alivePath, answerMs = ANSWER_MS } = spec;
  if (alivePath === undefined || spec.probeUrl !== undefined) return judgeReply(spec, await probeReady(spec, answerMs));
  const reply = await probeHttp({ url: plan.url + alivePath, timeoutMs: answerMs });
  return reply.status > 0 ? "ready" : judgeReply(spec, reply);
}

/** A ready engine's metrics are read now and then, after it has answered that it is healthy. */
function workCheck(
  { work, answerMs = ANSWER_MS }: PlanSpec,
  now: () => number,
): (loading: boolean, health: Promise<Verdict>) => Promise<Look> {
  if (work === undefined) return (_, health) => health;
  const watch = new StallWatch(work.timeoutMs);
  const { url, apiKey } = work;
  return async (loading, health) => {
    const verdict = await health;
    if (loading) watch.reset();
    if (loading || verdict !== "ready" || !watch.isDue(now())) return verdict;
    const reply = await probeHttp({ url, timeoutMs: answerMs, ...(apiKey === undefined ? {} : { apiKey }) });
    if (reply.status !== 200 && !reply.timedOut) return verdict;
    const stalled = watch.look(reply.timedOut ? undefined : work.parse(reply.body), now());
    return stalled === undefined ? verdict : { stalled };
  };
}

function probeReady({ plan, probeUrl }: PlanSpec, timeoutMs: number): Promise<HttpReply> {
  const { path, method, body } = plan.ready;
  return probeHttp({
    url: probeUrl ?? `${plan.url}${path}`,
    timeoutMs,
    ...(probeUrl !== undefined || method === undefined ? {} : { method }),
    ...(probeUrl !== undefined || body === undefined ? {} : { body }),
  });
}

function judgeReply({ verdict, probeUrl }: PlanSpec, reply: HttpReply): Verdict {
  if (reply.unasked) return "unasked";
  if (reply.timedOut) return "silent";
  if (probeUrl === undefined) return verdict(reply);
  return reply.status >= 200 && reply.status < 300 ? "ready" : "loading";
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, timeout: 1_000 });
    const end = (open: boolean) => () => {
      socket.destroy();
      resolve(open);
    };
    socket.once("connect", end(true)).once("error", end(false)).once("timeout", end(false));
  });
}

/** @throws CgnError STORAGE_UNUSABLE */
async function writePlanFiles(files: readonly PlanFile[]): Promise<void> {
  for (const { path, mode, content } of files) {
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content, { mode: Number.parseInt(mode, 8) });
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      throw new CgnError(
        "STORAGE_UNUSABLE",
        `Cannot write "${path}": ${said}. Set [agent].state_dir to a folder that can be written`,
        { path },
        { cause },
      );
    }
  }
}
