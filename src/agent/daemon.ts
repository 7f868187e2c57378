import type { Access } from "../access/access.ts";
import { createMemoryDirectory, type MemoryDirectory } from "../cluster/memory-directory.ts";
import type { HostPort, Settings } from "../config/settings.ts";
import { requireFolders } from "../config/usable-folders.ts";
import type { Clock } from "../core/clock.ts";
import { isCgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { ReloadReport } from "../core/reload-report.ts";
import { isLoopbackHost } from "../engines/address.ts";
import { optionalCertificates } from "../http/client-certificates.ts";
import { type HttpServer, startHttpServer } from "../http/server.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { countTls } from "../telemetry/tls-gauges.ts";
import { agentRoutes } from "../wire/agent-server.ts";
import { connectKv } from "../wire/kv-client.ts";
import { listenWire, type WireServer } from "../wire/listen.ts";
import { guardOutgoing, outgoingOptions } from "../wire/outgoing.ts";
import { openTls, type WireTls } from "../wire/tls.ts";
import { adminHandler } from "./admin.ts";
import { type Agent, type AgentOptions, createAgent } from "./agent.ts";
import { startFigures } from "./figures.ts";
import { registerWithKvcached } from "./kv-registration.ts";
import { createRelay } from "./relay.ts";
import { hostOf, isGuardedPort, relayOf } from "./relay-path.ts";

/** An agent that routers and kvcached of other processes can follow. */
export interface AgentDaemon {
  readonly agent: Agent;
  readonly directory: MemoryDirectory;
  /** TCP ports of `cgn.agent.v1`: `[agent].listen`, and `listen_grpc` when it is another. */
  readonly ports: readonly number[];
  /** Where `/healthz`, `/readyz` and `/metrics` are; undefined when its default port was taken. */
  readonly admin: HostPort | undefined;
  /** End the engines, then what serves them. */
  close(): Promise<void>;
}

export interface AgentDaemonDeps extends Pick<AgentOptions, "engineOf" | "plan" | "policy"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What `POST /v1/cgn/reload` of the admin port does. */
  readonly reload?: () => Promise<ReloadReport>;
  /** What `POST /v1/cgn/role` does. */
  readonly changeRole?: (node: string, role: string) => Promise<ReloadReport>;
  /** Whose keys let other hosts do so; without it none does. The caller closes it. */
  readonly access?: Access | undefined;
}

/**
 * Serve `cgn.agent.v1`, register with kvcached while it is there, and start the engines (their outcome: `agent.settled()`).
 * @throws CgnError PORT_IN_USE, CONFIG_INVALID, STORAGE_UNUSABLE, TLS_INVALID; nothing is left open and no engine was started then
 */
export async function runAgent(settings: Settings, deps: AgentDaemonDeps): Promise<AgentDaemon> {
  const { clock, log } = deps;
  requireFolders(settings.folders, ["agent.state_dir", "agent.log_dir", "cluster.data_dir"]);
  const metrics = createMetrics();
  const directory = createMemoryDirectory();
  const tls = openTls(settings.security, { clock, log });
  const isGuarded = isGuardedPort(settings.agent.listen, tls.serverOptions()?.required === true);
  const relayMode = settings.agent.relay;
  const unguard = guardOutgoing(tls);
  const opened: { close(): Promise<void> }[] = [
    {
      async close() {
        tls.close();
        unguard();
      },
    },
  ];
  const closeAll = async (): Promise<void> => {
    for (const each of opened.splice(0).reverse()) await each.close();
  };
  try {
    countTls(metrics, tls);
    const agent = createAgent({
      ...deps,
      settings,
      directory,
      metrics,
      relayOf: (id, url) => relayOf(id, url, relayMode, isGuarded),
    });
    if (tls.serverOptions() === undefined) warnOfClearText(settings.agent.listen, log);
    warnOfHidden(settings, isGuarded, log);
    const started = Promise.withResolvers<void>();
    opened.push({ close: async () => started.resolve() });
    const wires: WireServer[] = [];
    const relay = createRelay({ directory, apiKey: (id) => agent.apiKey(id), tls: () => outgoingOptions(tls), log });
    for (const tcp of listenAddresses(settings)) {
      const routes = agentRoutes(directory, loaderOf(agent), started.promise);
      const wire = await listenWire({ routes, tcp, tls, ...relay });
      wires.push(wire);
      opened.push(wire);
    }
    const admin = await openAdmin(settings, (own) => adminHandler(agent, metrics, { ...deps, tls: own }), log, tls);
    if (admin !== undefined) opened.push({ close: () => admin.close(1_000) });
    const client = connectKv({ address: { uds: settings.agent.kvUds }, clock });
    opened.push({ close: async () => client.close() });
    const registration = registerWithKvcached({ directory, client, clock, log, everyMs: settings.agent.heartbeatMs });
    // Engines that run on stay known with what is in their caches.
    opened.push({ close: () => registration.close(directory.list().map(({ id }) => id)) });
    const figures = startFigures({ agent, metrics: settings.metrics, clock, log, env: deps.env });
    opened.push({ close: async () => figures.close() });
    agent.start();
    started.resolve();
    return {
      agent,
      directory,
      ports: wires.flatMap(({ port }) => (port === undefined ? [] : [port])),
      admin: admin?.address,
      async close() {
        await agent.stop();
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

function warnOfClearText({ host, port }: HostPort, log: Log): void {
  if (isLoopbackHost(host)) return;
  log.warn("Anyone who reaches this address can read what runs here and load or unload it: it is not encrypted", {
    listen: `${host}:${port}`,
    remedy: "Set cert_file, key_file and client_ca_file in [security], or listen on loopback ([agent].listen)",
  });
}

/** With others in the cluster an engine on loopback is of use to this host only, unless its agent relays. */
function warnOfHidden({ cluster, agent, engines }: Settings, isGuarded: boolean, log: Log): void {
  const hidden = engines.filter(({ url }) => isLoopbackHost(hostOf(url)));
  if (cluster.stateBackend === "memory" || isLoopbackHost(agent.listen.host) || hidden.length === 0) return;
  if (agent.relay !== "never" && isGuarded) return;
  log.warn("Engines that listen on loopback cannot be reached from other hosts", {
    engines: hidden.map(({ url }) => url),
    remedy: "Set [security].require_mtls, then this agent relays to them ([agent].relay); or set [engine].url",
  });
}

/** The agent's loader of the moment: a reload may bring one, or another. */
function loaderOf(agent: Agent): ModelLoader {
  return {
    demand: (router, demand) => agent.loader?.demand(router, demand),
    load: async (name) => (await agent.loader?.load(name)) ?? [],
    unload: async (name) => (await agent.loader?.unload(name)) ?? [],
  };
}

function listenAddresses({ agent: { listen, listenGrpc } }: Settings): HostPort[] {
  const same = listenGrpc === undefined || (listenGrpc.host === listen.host && listenGrpc.port === listen.port);
  return same ? [listen] : [listen, listenGrpc];
}

/** Several agents of one host share the default port: then only the first has it. A port that was written must be free. */
async function openAdmin(
  settings: Settings,
  handleOf: (tls: WireTls | undefined) => ReturnType<typeof adminHandler>,
  log: Log,
  tls: WireTls,
): Promise<HttpServer | undefined> {
  const { listenAdmin } = settings.agent;
  const listen = listenAdmin ?? settings.metrics.listen;
  try {
    // On loopback commands of this host use it without certificates.
    const own = isLoopbackHost(listen.host) ? undefined : tls;
    return await startHttpServer({
      name: "agent admin",
      listen,
      handle: handleOf(own),
      tls: optionalCertificates(own),
    });
  } catch (error) {
    if (listenAdmin !== undefined || !isCgnError(error, "PORT_IN_USE")) throw error;
    log.warn("no admin port: the default one is in use. Set [agent].listen_admin", { port: listen.port });
    return undefined;
  }
}
