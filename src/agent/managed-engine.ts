import type { EngineSettings } from "../config/settings.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Log } from "../core/log.ts";
import type { Engine } from "../engines/engine.ts";
import { adoptedEngine } from "./adopted-engine.ts";
import type { AgentOptions } from "./agent.ts";
import type { ManagedEngine } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { describeWorker } from "./engine-worker.ts";
import { spawnedEngine } from "./spawned-engine.ts";

/** One engine of the agent with what it was made from. */
export interface AgentEngine {
  readonly id: WorkerId;
  readonly settings: EngineSettings;
  readonly engine: Engine;
  readonly plan: LaunchPlan;
  readonly keeper: ManagedEngine;
}

/**
 * Make the keeper of one engine; nothing is started.
 * @param epoch of the process that it replaces; its own are above it
 */
export function manageEngine(
  made: Omit<AgentEngine, "keeper">,
  options: AgentOptions,
  epoch: number,
  onChange: (status: EngineStatus) => void,
): AgentEngine {
  const { id, settings, engine, plan } = made;
  const { clock, env, metrics, inflight, policy } = options;
  const { agent, engines } = options.settings;
  // One URL cannot be the probe of several engines.
  const probeUrl = engines.length === 1 ? agent.readyProbeUrl : undefined;
  const log = options.log.child({ worker: id });
  for (const { message, remedy } of plan.warnings) log.warn(`${message}. ${remedy}`);
  const deps = {
    settings,
    engine,
    agent,
    clock,
    env,
    log,
    epoch,
    onChange: logged(log, onChange),
    random: options.random ?? Math.random,
    ...(metrics === undefined ? {} : { metrics }),
    ...(probeUrl === undefined ? {} : { probeUrl }),
    ...(inflight === undefined ? {} : { inflight }),
    ...(policy === undefined ? {} : { policy }),
  };
  const described = describeWorker(id, settings, engine);
  const make = settings.spawn && engine.spawns ? spawnedEngine : adoptedEngine;
  return { ...made, keeper: make(described, plan, deps) };
}

/** One line a change of state. A start that fails is told by whoever asked for it (`startupError()`), so not twice. */
function logged(log: Log, onChange: (status: EngineStatus) => void): (status: EngineStatus) => void {
  let last = "";
  let wasReady = false;
  let wasLooping = false;
  return (status) => {
    const { state, reason } = status.worker;
    const { looping = false, crashes, goodLog, badLog } = status;
    const now = `${state} ${reason}`;
    wasReady ||= state === "ready";
    const trouble = state === "down" && !status.stopped;
    const level = !trouble ? "info" : status.failed && !wasReady ? "debug" : "warn";
    if (now !== last) log[level](`engine ${state}`, { reason, pid: status.pid });
    if (looping && !wasLooping) log.warn("engine is in a crash loop", { crashes, good_log: goodLog, bad_log: badLog });
    wasLooping = looping;
    last = now;
    onChange(status);
  };
}
