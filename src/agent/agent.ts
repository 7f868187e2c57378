import type { MemoryDirectory } from "../cluster/memory-directory.ts";
import { planEngine } from "../config/plan.ts";
import type { EngineSettings, Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Log } from "../core/log.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { EngineFigures, EngineRelay } from "../core/worker.ts";
import type { Engine } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";
import type { SortedKept } from "../process/kept-engines.ts";
import type { Policy } from "../process/lifecycle.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { countEngines } from "./agent-metrics.ts";
import type { EngineKeeper } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { workerIds } from "./engine-worker.ts";
import { pause } from "./idle.ts";
import { endUnwanted, unwantedKept } from "./kept-engines.ts";
import { type AgentEngine, manageEngine } from "./managed-engine.ts";
import { type ReloadResult, reloadEngines } from "./reload.ts";
import { startInOrder, stopInOrder } from "./start-order.ts";
import { SwapBox } from "./swap-box.ts";

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
  /** How other hosts reach an engine through this agent; undefined: they do not. */
  readonly relayOf?: (id: WorkerId, url: string) => EngineRelay | undefined;
  /** Fields replace the restart policy's. */
  readonly policy?: Partial<Policy>;
}

/** The engines of this host: started or adopted, watched, announced. */
export interface Agent {
  start(): void;
  /** Settles once each engine is ready or has failed (adopted ones: was asked once). See `startupError()`. */
  settled(): Promise<readonly EngineStatus[]>;
  status(): readonly EngineStatus[];
  /** The handle on one engine, to start and stop it at will. To be asked for each time: a reload may replace it. */
  keeper(id: WorkerId): EngineKeeper | undefined;
  /** Loads and unloads the engines that are loaded on demand; undefined: there are none. */
  readonly loader: ModelLoader | undefined;
  /** The API key that an engine was started with, for questions of this process to it. A secret: never announced. */
  apiKey(id: WorkerId): string | undefined;
  /** The GPUs that an engine was given; undefined: it sees all, or is not known. */
  gpusOf(id: WorkerId): readonly number[] | undefined;
  /** What is measured of an engine, announced from now on; undefined: nothing is. Told only where it changes a choice. */
  setFigures(id: WorkerId, figures: EngineFigures | undefined): void;
  /** Called after each change of an engine, and with its progress while it loads; the result ends it. */
  subscribe(listener: (engine: EngineStatus) => void): () => void;
  /**
   * Take engines out of routing (all, or one) and wait until their requests have ended, the drain grace at most.
   * @returns true when none was left
   */
  drain(id?: WorkerId): Promise<boolean>;
  /** Undo `drain()`. */
  resume(id?: WorkerId): void;
  /**
   * Take over a new configuration: engines whose section changed are drained and started anew, one that is gone is ended, a new one
   * started; all others go on as they are. A reload waits for the one before it.
   * @throws CgnError CONFIG_INVALID when a plan cannot be made; nothing has changed then
   */
  reload(next: AgentOptions["settings"]): Promise<ReloadResult>;
  /** End all engines: out of routing, drain, SIGTERM, SIGKILL. With `keep_engines` they run on. Adopted ones are left alone. */
  stop(): Promise<void>;
}

/**
 * Plan, supervise and announce the engines of a configuration.
 * @throws CgnError CONFIG_INVALID when a plan cannot be made; nothing was started then
 */
export function createAgent(options: AgentOptions): Agent {
  const { directory, clock, log } = options;
  const engineOf = options.engineOf ?? ((each: EngineSettings) => findEngine(each.kind));
  const planOf = options.plan ?? planEngine;
  const listeners = new Set<(engine: EngineStatus) => void>();
  let { settings } = options;
  let engines: readonly AgentEngine[] = [];
  let isStopping = false;
  let reloading: Promise<unknown> = Promise.resolve();
  let begun: Promise<unknown> = Promise.resolve();
  let cleared: Promise<unknown> = Promise.resolve();

  const swap = new SwapBox(options, (process) => publish(process));
  /** As routers are told: an engine that is loaded on demand is more than its process. */
  const announced = (status: EngineStatus): EngineStatus => {
    const worker = swap.announce(status);
    const relay = options.relayOf?.(worker.id, worker.url);
    const figures = measured.get(worker.id);
    const added = {
      ...(figures === undefined ? {} : { figures }),
      ...(returning.has(worker.id) ? { returns: true } : {}),
      ...(relay === undefined ? {} : { relay }),
    };
    return { ...status, worker: { ...worker, ...added } };
  };
  const measured = new Map<WorkerId, EngineFigures>();
  /** Engines that a reload starts anew: requests may wait for them. */
  const returning = new Set<WorkerId>();
  const publish = (process: EngineStatus): void => {
    if (process.failed || process.worker.state === "ready") returning.delete(process.worker.id);
    const status = announced(process);
    directory.set(status.worker);
    for (const listener of listeners) listener(status);
  };
  const changed = (process: EngineStatus): void => {
    swap.noticed(process);
    publish(process);
  };
  const isListed = ({ keeper }: AgentEngine): boolean => engines.some((each) => each.keeper === keeper);
  const manage = (made: Omit<AgentEngine, "keeper">, epoch = 0): AgentEngine => {
    const engine: AgentEngine = manageEngine(made, { ...options, settings }, epoch, (status) => {
      // What one says that was replaced is nobody's news any more.
      if (isListed(engine)) changed(status);
    });
    return engine;
  };
  const ids = workerIds(settings.engines);
  engines = settings.engines.map((each, index) => {
    const engine = engineOf(each);
    return manage({ id: ids[index]!, settings: each, engine, plan: planOf(each, engine) });
  });
  swap.open(engines, settings.swap);
  const chosen = (id: WorkerId | undefined): AgentEngine[] =>
    engines.filter((each) => id === undefined || each.id === id);
  const status = (): EngineStatus[] => engines.map(({ keeper }) => announced(keeper.status()));
  const endMetrics = options.metrics === undefined ? () => {} : countEngines(options.metrics, status);

  /** Start those that are not started on demand, and list all. */
  const begin = async (starting: readonly AgentEngine[]): Promise<void> => {
    const { startsWithAgent = () => true } = options;
    const now = starting.filter((each) => !swap.owns(each.id) && startsWithAgent(each.settings));
    const all = startInOrder(now, (engine) => !isStopping && isListed(engine));
    for (const { keeper } of starting) directory.set(announced(keeper.status()).worker);
    const settled = all.map((each) => each.settled);
    begun = Promise.all([begun, ...settled]);
    await Promise.all(settled);
  };

  const startAll = (): void => {
    if (isStopping) return;
    void begin(engines);
    swap.start();
  };
  const hurry = new AbortController();
  /** What earlier agents left and nobody wants any more has ports and GPUs that are given out again: it ends first. */
  const startAfter = async (unwanted: SortedKept): Promise<void> => {
    for (const { keeper } of engines) directory.set(announced(keeper.status()).worker);
    await endUnwanted(unwanted, { clock, log, signal: hurry.signal });
    startAll();
  };

  return {
    start() {
      const unwanted = unwantedKept(settings.agent, engines);
      if (unwanted.stale.length + unwanted.others.length === 0) return startAll();
      cleared = startAfter(unwanted);
      reloading = cleared;
    },
    async settled() {
      await cleared;
      await begun;
      await Promise.all(engines.map(({ keeper }) => keeper.settled()));
      return status();
    },
    status,
    keeper: (id) => chosen(id)[0]?.keeper,
    get loader() {
      return swap.isEmpty ? undefined : swap;
    },
    apiKey: (id) => chosen(id)[0]?.keeper.apiKey,
    gpusOf: (id) => chosen(id)[0]?.settings.slot?.gpus,
    setFigures(id, figures) {
      const engine = chosen(id)[0];
      if (engine === undefined || sameFigures(measured.get(id), figures)) return;
      if (figures === undefined) measured.delete(id);
      else measured.set(id, figures);
      publish(engine.keeper.status());
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async drain(id) {
      const drained = chosen(id).map(({ keeper }) => keeper);
      for (const engine of drained) engine.cordon(true);
      const late = new AbortController();
      const done = new AbortController();
      const grace = Math.max(0, ...settings.engines.map((each) => each.drainGraceMs));
      void pause(clock, grace, done.signal).then(() => late.abort());
      await Promise.all(drained.map((engine) => engine.idle(late.signal)));
      const inTime = !late.signal.aborted;
      done.abort();
      return inTime;
    },
    resume(id) {
      for (const { keeper } of chosen(id)) keeper.cordon(false);
    },
    async reload(next) {
      const before = reloading;
      const result = before.then(() =>
        reloadEngines({
          before: settings,
          next,
          engines,
          isStopping: () => isStopping,
          manage,
          engineOf,
          planOf,
          directory,
          log,
          begin,
          expect(ids) {
            for (const id of ids) returning.add(id);
          },
          forget(id) {
            directory.remove(id);
            options.metrics?.forget("worker", id, "cgn_agent_");
          },
          swap,
          set(now, all) {
            engines = all;
            settings = { ...now, agent: settings.agent };
          },
        }),
      );
      reloading = result.then(
        ({ done }) => done,
        () => {},
      );
      return result;
    },
    async stop() {
      isStopping = true;
      hurry.abort();
      returning.clear();
      await cleared;
      const keep = settings.agent.keepEngines;
      if (keep) log.info("engines run on (keep_engines)");
      swap.close();
      // Those that take turns end: the next agent would not know which of them has the place.
      const isKept = ({ id }: AgentEngine): boolean => keep && !swap.owns(id);
      await stopInOrder(engines, (engine) => (isKept(engine) ? engine.keeper.release() : engine.keeper.stop()));
      await reloading;
      endMetrics();
      // Whoever follows this agent is to go on with those that run on: the next one lists them again.
      for (const engine of engines) if (!isKept(engine)) directory.remove(engine.id);
    },
  };
}

/** Are they the same to whoever chooses by them? */
function sameFigures(a: EngineFigures | undefined, b: EngineFigures | undefined): boolean {
  return a?.powerHeadroom === b?.powerHeadroom && a?.kvFree === b?.kvFree && (a === undefined) === (b === undefined);
}
