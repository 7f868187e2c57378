import { engineNeeds } from "../config/plan.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { WorkerInfo, WorkerState } from "../core/worker.ts";
import { findInHubCache } from "../modelfiles/hub-cache.ts";
import type { StateName } from "../process/lifecycle.ts";
import { engineOomScore } from "../process/oom-score.ts";
import { type PlanSpec, type PlanSupervisor, supervisePlan } from "../process/plan-supervisor.ts";
import type { ProcessStatus } from "../process/process-spec.ts";
import type { EngineDeps } from "./engine-deps.ts";
import type { ManagedEngine } from "./engine-keeper.ts";
import { engineKey } from "./engine-key.ts";
import type { EngineStatus } from "./engine-status.ts";
import { waitIdle } from "./idle.ts";
import { inheritedEnv } from "./inherited-env.ts";
import { isKept } from "./kept-engines.ts";

/** What the process's state means to those who send requests. */
const STATE: Readonly<Record<StateName, WorkerState>> = {
  stopped: "down",
  failed: "down",
  starting: "starting",
  backoff: "down",
  ready: "ready",
  sick: "down",
  killing: "down",
  draining: "draining",
  stopping: "draining",
};

/** An engine that this agent starts, watches and ends. */
export function spawnedEngine(described: WorkerInfo, plan: LaunchPlan, deps: EngineDeps): ManagedEngine {
  const { settings, engine, clock, log, agent } = deps;
  const url = settings.url;
  const env = inheritedEnv(deps.env, settings.inheritEnv);
  const apiKey = engineKey(engine.probe, plan, env, deps.env);
  const { metrics } = engine.probe;
  const { answerMs, alivePath } = engine.probe.ready;
  const oomScoreAdj = engineOomScore(agent.oomScoreAdj);
  let cordoned = false;
  let loadedRun = 0;
  const idle = (signal: AbortSignal): Promise<void> => {
    const { inflight } = deps;
    return waitIdle({
      url,
      probe: engine.probe,
      clock,
      signal,
      ...(inflight === undefined ? {} : { inflight: () => inflight(described.id) }),
      ...(apiKey === undefined ? {} : { apiKey }),
    });
  };
  const supervisor: PlanSupervisor = supervisePlan(
    {
      name: described.id,
      plan,
      verdict: engine.probe.ready.verdict,
      drainGraceMs: settings.drainGraceMs,
      drained: idle,
      preflight: preflightOf(deps, plan),
      epochAbove: deps.epoch,
      env,
      secrets: deps.env,
      logDir: agent.logDir,
      logBounds: agent.logBounds,
      ...(oomScoreAdj === undefined ? {} : { oomScoreAdj }),
      ...(metrics === undefined
        ? {}
        : {
            work: {
              url: url + metrics.path,
              timeoutMs: settings.stallMs,
              parse: metrics.parse,
              ...(apiKey === undefined ? {} : { apiKey }),
            },
          }),
      ...(deps.probeUrl === undefined ? {} : { probeUrl: deps.probeUrl }),
      ...(answerMs === undefined ? {} : { answerMs }),
      ...(alivePath === undefined ? {} : { alivePath }),
      ...(isKept(agent, settings)
        ? {
            keepIn: agent.stateDir,
            keptAs: {
              node: agent.nodeId,
              kind: settings.kind,
              url,
              ...(settings.slot.gpus === undefined ? {} : { gpus: settings.slot.gpus }),
            },
          }
        : {}),
      ...(deps.policy === undefined ? {} : { policy: deps.policy }),
    },
    {
      clock,
      random: deps.random,
      log,
      onExit: (cause) => deps.metrics?.counter("cgn_agent_engine_exits_total", described.id, cause).inc(),
      onChange(process) {
        if (process.at === "ready" && process.starts !== loadedRun) noteLoad(process);
        deps.onChange(status());
      },
    },
  );

  const noteLoad = (process: ProcessStatus): void => {
    loadedRun = process.starts;
    if (process.load === undefined || process.starts === 0) return;
    const seconds = (process.sinceMs - process.load.startedMs) / 1_000;
    deps.metrics?.histogram("cgn_agent_engine_load_seconds", settings.model.name).observe(seconds);
  };

  const status = (): EngineStatus => {
    const process = supervisor.status();
    const { load, pid, error } = process;
    const state = STATE[process.at];
    const held = cordoned && state === "ready";
    return {
      worker: {
        ...described,
        state: held ? "draining" : state,
        reason: held ? "cordoned" : reasonOf(process),
        epoch: process.epoch,
        ...(process.at === "sick" ? { alive: true } : {}),
      },
      kvOffload: settings.kvOffload,
      spawned: true,
      failed: process.at === "failed",
      stopped: process.at === "stopped",
      starts: process.starts,
      logFile: supervisor.logFile,
      crashes: process.crashes,
      looping: process.looping,
      ...(process.goodLog === undefined ? {} : { goodLog: process.goodLog }),
      ...(process.badLog === undefined ? {} : { badLog: process.badLog }),
      droppedLogBytes: supervisor.droppedLogBytes,
      ...(pid === undefined ? {} : { pid }),
      ...(error === undefined ? {} : { error }),
      ...(process.at !== "starting" || load === undefined
        ? {}
        : {
            progress: {
              elapsedMs: clock.now() - load.startedMs,
              deadlineMs: load.deadlineMs - load.startedMs,
              lastLine: process.lastLine,
            },
          }),
    };
  };

  return {
    id: described.id,
    start: () => supervisor.start(),
    async settled() {
      await supervisor.settled();
    },
    cordon(on) {
      cordoned = on;
      deps.onChange(status());
    },
    idle,
    stop: (request) => supervisor.stop(request),
    release: () => supervisor.release(),
    status,
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

/** What the launch needs of this host, where the engine says it. */
function preflightOf({ settings, engine }: EngineDeps, plan: LaunchPlan): NonNullable<PlanSpec["preflight"]> {
  const needs = engineNeeds(settings, plan, engine);
  return { findInHub: findInHubCache, ...(needs === undefined ? {} : { needs }) };
}

function reasonOf({ at, reason, crashes }: ProcessStatus): string {
  const often = crashes === "" ? "" : ` (${crashes})`;
  if (at === "backoff") return `will be started again${often}: ${reason}`;
  return at === "failed" ? `given up${often}: ${reason}` : reason;
}
