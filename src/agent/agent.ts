import type { MemoryDirectory } from "../cluster/memory-directory.ts";
import { planEngine } from "../config/plan.ts";
import type { EngineSettings, Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Log } from "../core/log.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { Engine } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";
import type { Policy } from "../process/lifecycle.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { adoptedEngine } from "./adopted-engine.ts";
import { countEngines } from "./agent-metrics.ts";
import type { EngineKeeper, ManagedEngine } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { describeWorker, workerIds } from "./engine-worker.ts";
import { pause } from "./idle.ts";
import { spawnedEngine } from "./spawned-engine.ts";
import { Swap } from "./swap.ts";
import { createSleeper } from "./swap-sleep.ts";

export interface AgentOptions {
  readonly settings: Pick<Settings, "agent" | "engines"> & Partial<Pick<Settings, "swap">>;
  /** Where the engines are announced. Entries of others in it are left alone. */
  readonly directory: MemoryDirectory;
  readonly clock: Clock;
  readonly log: Log;
  /** The environment that engines inherit. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly metrics?: Metrics;
  /** Requests on a worker, where a router of this process knows; else engines are asked themselves. */
  readonly inflight?: (id: WorkerId) => number;
  /** In [0, 1); default `Math.random`. */
  readonly random?: () => number;
  /** Default: the registry, and `config/plan.ts`. Tests pass their own. */
  readonly engineOf?: (settings: EngineSettings) => Engine;
  readonly plan?: (settings: EngineSettings, engine: Engine) => LaunchPlan;
  /** Which engines `start()` starts; the others wait for their keeper's `start()`. Default: all. */
  readonly startsWithAgent?: (settings: EngineSettings) => boolean;
  /** Fields replace the restart policy's. */
  readonly policy?: Partial<Policy>;
}

/** The engines of this host: started or adopted, watched, announced. */
export interface Agent {
  start(): void;
  /** Settles once each engine is ready or has failed (adopted ones: was asked once). See `startupError()`. */
  settled(): Promise<readonly EngineStatus[]>;
  status(): readonly EngineStatus[];
  /** The handle on one engine, to start and stop it at will. */
  keeper(id: WorkerId): EngineKeeper | undefined;
  /** Loads and unloads the engines that are loaded on demand; undefined: there are none. */
  readonly loader: ModelLoader | undefined;
  /** The API key that an engine was started with, for questions of this process to it. A secret: never announced. */
  apiKey(id: WorkerId): string | undefined;
  /** Called after each change of an engine, and with its progress while it loads; the result ends it. */
  subscribe(listener: (engine: EngineStatus) => void): () => void;
  /**
   * Take engines out of routing (all, or one) and wait until their requests have ended, the drain grace at most.
   * @returns true when none was left
   */
  drain(id?: WorkerId): Promise<boolean>;
  /** Undo `drain()`. */
  resume(id?: WorkerId): void;
  /** End all engines: out of routing, drain, SIGTERM, SIGKILL. With `keep_engines` they run on. Adopted ones are left alone. */
  stop(): Promise<void>;
}

/**
 * Plan, supervise and announce the engines of a configuration.
 * @throws CgnError CONFIG_INVALID when a plan cannot be made; nothing was started then
 */
export function createAgent(options: AgentOptions): Agent {
  const { settings, directory, clock, log } = options;
  const engineOf = options.engineOf ?? ((each) => findEngine(each.kind));
  const planOf = options.plan ?? planEngine;
  const ids = workerIds(settings.engines);
  const listeners = new Set<(engine: EngineStatus) => void>();
  const grace = Math.max(0, ...settings.engines.map((each) => each.drainGraceMs));

  let swap: Swap | undefined;
  /** As routers are told: an engine that is loaded on demand is more than its process. */
  const announced = (status: EngineStatus): EngineStatus =>
    swap?.owns(status.worker.id) === true ? { ...status, worker: swap.announce(status) } : status;
  const publish = (process: EngineStatus): void => {
    const status = announced(process);
    directory.set(status.worker);
    for (const listener of listeners) listener(status);
  };
  const changed = (process: EngineStatus): void => {
    swap?.noticed(process);
    publish(process);
  };
  const managed = new Map(
    settings.engines.map((each, index) => {
      const id = ids[index]!;
      const engine = engineOf(each);
      return [id, manage(id, each, engine, planOf(each, engine), options, changed)] as const;
    }),
  );
  const chosen = (id: WorkerId | undefined): ManagedEngine[] =>
    [...managed].filter(([each]) => id === undefined || each === id).map(([, engine]) => engine);
  swap = openSwap(options, managed, ids, engineOf, publish);
  const status = (): EngineStatus[] => [...managed.values()].map((engine) => announced(engine.status()));
  const endMetrics = options.metrics === undefined ? () => {} : countEngines(options.metrics, status);

  return {
    start() {
      const { startsWithAgent = () => true } = options;
      settings.engines.forEach((each, index) => {
        const engine = managed.get(ids[index]!)!;
        directory.set(announced(engine.status()).worker);
        if (swap?.owns(engine.id) !== true && startsWithAgent(each)) engine.start();
      });
      swap?.start();
    },
    async settled() {
      await Promise.all([...managed.values()].map((engine) => engine.settled()));
      return status();
    },
    status,
    keeper: (id) => managed.get(id),
    loader: swap,
    apiKey: (id) => managed.get(id)?.apiKey,
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async drain(id) {
      const engines = chosen(id);
      for (const engine of engines) engine.cordon(true);
      const late = new AbortController();
      const done = new AbortController();
      void pause(clock, grace, done.signal).then(() => late.abort());
      await Promise.all(engines.map((engine) => engine.idle(late.signal)));
      const inTime = !late.signal.aborted;
      done.abort();
      return inTime;
    },
    resume(id) {
      for (const engine of chosen(id)) engine.cordon(false);
    },
    async stop() {
      const keep = settings.agent.keepEngines;
      if (keep) log.info("engines run on (keep_engines)");
      swap?.close();
      // Those that take turns end: the next agent would not know which of them has the place.
      const isKept = (engine: ManagedEngine): boolean => keep && swap?.owns(engine.id) !== true;
      await Promise.all([...managed.values()].map((engine) => (isKept(engine) ? engine.release() : engine.stop())));
      endMetrics();
      for (const id of managed.keys()) directory.remove(id);
    },
  };
}

/** The swap of the engines that are loaded on demand; undefined when there are none. */
function openSwap(
  { settings, clock, log, metrics, inflight }: AgentOptions,
  managed: ReadonlyMap<WorkerId, ManagedEngine>,
  ids: readonly WorkerId[],
  engineOf: (settings: EngineSettings) => Engine,
  publish: (status: EngineStatus) => void,
): Swap | undefined {
  const members = settings.engines.flatMap((each, index) => {
    const keeper = managed.get(ids[index]!)!;
    if (each.onDemand === undefined) return [];
    const calls = engineOf(each).sleeps?.(each.options);
    const sleeper = calls === undefined ? {} : { sleeper: createSleeper(each.url, calls, keeper.apiKey) };
    return [{ keeper, settings: each, ...sleeper }];
  });
  if (members.length === 0 || settings.swap === undefined) return undefined;
  return new Swap({
    members,
    settings: settings.swap,
    clock,
    log,
    isLocal: inflight !== undefined,
    publish,
    onLoad: (id, how) => metrics?.counter("cgn_agent_engine_loads_total", id, how).inc(),
  });
}

function manage(
  id: WorkerId,
  settings: EngineSettings,
  engine: Engine,
  plan: LaunchPlan,
  options: AgentOptions,
  onChange: (status: EngineStatus) => void,
): ManagedEngine {
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
    onChange: logged(log, onChange),
    random: options.random ?? Math.random,
    ...(metrics === undefined ? {} : { metrics }),
    ...(probeUrl === undefined ? {} : { probeUrl }),
    ...(inflight === undefined ? {} : { inflight }),
    ...(policy === undefined ? {} : { policy }),
  };
  const described = describeWorker(id, settings, engine);
  return settings.spawn && engine.spawns ? spawnedEngine(described, plan, deps) : adoptedEngine(described, plan, deps);
}

/** One line a change of state. A start that fails is told by whoever asked for it (`startupError()`), so not twice. */
function logged(log: Log, onChange: (status: EngineStatus) => void): (status: EngineStatus) => void {
  let last = "";
  let wasReady = false;
  return (status) => {
    const { state, reason } = status.worker;
    const now = `${state} ${reason}`;
    wasReady ||= state === "ready";
    const trouble = state === "down" && !status.stopped;
    const level = !trouble ? "info" : status.failed && !wasReady ? "debug" : "warn";
    if (now !== last) log[level](`engine ${state}`, { reason, pid: status.pid });
    last = now;
    onChange(status);
  };
}
