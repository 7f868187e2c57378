import { randomInt } from "node:crypto";
import { type Agent, createAgent } from "../agent/agent.ts";
import { startFigures } from "../agent/figures.ts";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import type { Settings } from "../config/settings.ts";
import { requireFolders } from "../config/usable-folders.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import { RELOAD_PATH, type ReloadReport, ROLE_PATH } from "../core/reload-report.ts";
import { kvHttpRoutes } from "../kvcached/kv-http.ts";
import { createKvcached, type Kvcached } from "../kvcached/service.ts";
import { createRouter, type Router } from "../router/create-router.ts";
import { createModelTemplates } from "../router/model-templates.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { countTls } from "../telemetry/tls-gauges.ts";
import { kvRoutes } from "../wire/kv-server.ts";
import { listenWire, type WireServer } from "../wire/listen.ts";
import { guardOutgoing, outgoingOptions } from "../wire/outgoing.ts";
import { openTls } from "../wire/tls.ts";
import { engineDetails, engineLogs } from "./engine-details.ts";
import { openAccessOf } from "./open-access.ts";
import { openMembership } from "./open-membership.ts";
import { openTracer } from "./open-tracer.ts";
import { requireEngines } from "./require-engines.ts";
import { routerThreads } from "./router-threads.ts";

/** Agent, kvcached and router in one process, joined by the contracts in `core`. */
export interface Stack {
  readonly agent: Agent;
  readonly kvcached: Kvcached;
  readonly router: Router;
  /** Of the front door. */
  readonly scheme: "http" | "https";
  /** Requests end within the drain grace, then the engines are stopped, then everything is closed. */
  stop(): Promise<void>;
}

export interface StackDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What `POST /v1/cgn/reload` of the admin port does. */
  readonly reload?: () => Promise<ReloadReport>;
  /** What `POST /v1/cgn/role` does. */
  readonly changeRole?: (node: string, role: string) => Promise<ReloadReport>;
}

/**
 * Start everything that a file describes for this host. The router listens first, so that a port in use is found before any
 * engine starts; until engines are ready it answers 503 with the reason.
 * @throws CgnError CONFIG_INVALID, PORT_IN_USE, STORAGE_UNUSABLE; nothing is left running then
 */
export async function startStack(settings: Settings, deps: StackDeps): Promise<Stack> {
  const { clock, log, env } = deps;
  requireEngines(settings, "start");
  requireFolders(
    settings.folders,
    (settings.folders ?? []).map(({ key }) => key),
  );
  const guarded = await openAccessOf(settings, { clock, log });
  const tls = openTls(settings.security, { clock, log });
  const unguard = guardOutgoing(tls);
  const membership = await joinCluster(settings, { clock, log });
  const directory = createMemoryDirectory();
  const metrics = createMetrics();
  countTls(metrics, tls);
  const tracer = openTracer(settings, { clock, log, metrics });
  let agentOf: Agent | undefined;
  const kvcached = createKvcached({
    clock,
    log,
    env,
    metrics,
    apiKey: (id) => agentOf?.apiKey(id),
    capBytes: settings.kv.ramBytes,
    seed: randomInt(2 ** 32),
  });
  const unfollow = kvcached.follow(directory);
  const templates = createModelTemplates({ env, clock, log });
  const router = createRouter({
    settings: settings.router,
    directory,
    knowledge: kvcached,
    renderers: templates,
    membership,
    tls,
    engineTls: () => outgoingOptions(tls),
    ...guarded,
    engineKey: (id) => agentOf?.apiKey(id) ?? guarded.engineKey(),
    tracer,
    ...routerThreads(settings, env),
    clock,
    log,
    metrics,
    loader: {
      demand: (router, demand) => agentOf?.loader?.demand(router, demand),
      load: async (name) => (await agentOf?.loader?.load(name)) ?? [],
      unload: async (name) => (await agentOf?.loader?.unload(name)) ?? [],
    },
    extras: {
      sources: () => kvcached.sources(),
      templates: templates.problems,
      engines: () => engineDetails(agentOf),
      logs: (engine, lines) => engineLogs(agentOf, engine, lines),
      posts: {
        ...(deps.reload === undefined ? {} : { [RELOAD_PATH]: deps.reload }),
        ...(deps.changeRole === undefined ? {} : { [ROLE_PATH]: rolePost(deps.changeRole) }),
      },
    },
  });
  let wire: WireServer | undefined;
  let figures: ReturnType<typeof startFigures> | undefined;
  const close = async (): Promise<void> => {
    figures?.close();
    await router.close();
    guarded.access.close();
    await tracer?.close();
    await wire?.close();
    await membership.close();
    tls.close();
    unguard();
    unfollow();
    kvcached.close();
  };
  try {
    const inflight = (id: WorkerId): number =>
      directory
        .list()
        .filter((worker) => worker.id === id || (worker.rank !== undefined && worker.id.startsWith(`${id}#dp`)))
        .reduce((sum, worker) => sum + router.core.loads.of(worker.id).inFlight, 0);
    const agent = createAgent({ settings, directory, clock, log, env, metrics, inflight });
    agentOf = agent;
    await router.start();
    wire = await serveIndex(settings, kvcached, log);
    figures = startFigures({ agent, metrics: settings.metrics, clock, log, env });
    agent.start();
    return {
      agent,
      kvcached,
      router,
      scheme: tls.serverOptions() === undefined ? "http" : "https",
      async stop() {
        await router.drain(settings.agent.drainGraceMs);
        await agent.stop();
        await close();
      },
    };
  } catch (e) {
    await close();
    throw e;
  }
}

const rolePost =
  (change: NonNullable<StackDeps["changeRole"]>) =>
  (query: URLSearchParams): Promise<ReloadReport> =>
    change(query.get("node") ?? "", query.get("role") ?? "");

/** `cgn kv …` reaches the index by its Unix socket. A second stack on the host goes without, and says so. */
async function serveIndex(settings: Settings, kvcached: Kvcached, log: Log): Promise<WireServer | undefined> {
  try {
    const http = kvHttpRoutes(kvcached, undefined);
    return await listenWire({ routes: kvRoutes(kvcached), uds: settings.kv.uds, http });
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e);
    log.warn("The prefix index is not reachable from other processes (cgn kv …)", { why });
    return undefined;
  }
}

/** In one process nothing needs to be shared, so a store that cannot be used is no reason not to start. */
async function joinCluster(settings: Settings, deps: Pick<StackDeps, "clock" | "log">): Promise<Membership> {
  const { stateBackend } = settings.cluster;
  try {
    return await openMembership(settings, { ...deps, isImpatient: true });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    deps.log.warn("All parts run in this process: the cluster's state is kept in memory", {
      state_backend: stateBackend,
      why,
    });
    return await openMembership({ ...settings, cluster: { ...settings.cluster, stateBackend: "memory" } }, deps);
  }
}
