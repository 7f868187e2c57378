import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import type { Settings } from "../config/settings.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import { RELOAD_PATH } from "../core/reload-report.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { dialHost, hostPort, isLoopbackHost } from "../engines/address.ts";
import { tokenizerSource } from "../engines/engine.ts";
import { ENGINES } from "../engines/registry.ts";
import { createRouter } from "../router/create-router.ts";
import { type EngineSpec, parseEngineSpec } from "../router/engine-spec.ts";
import { watchEngines } from "../router/engine-watch.ts";
import { createModelTemplates } from "../router/model-templates.ts";
import { POLICY_NAMES } from "../routing/policies.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { countTls } from "../telemetry/tls-gauges.ts";
import { guardOutgoing, outgoingOptions } from "../wire/outgoing.ts";
import { openTls, type WireTls } from "../wire/tls.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, LOG_OPTIONS, type Values } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { followAgents } from "./follow-agents.ts";
import { loadForCommand, type Shortcuts } from "./load-config.ts";
import { openAccessOf } from "./open-access.ts";
import { warnOfOpenAddress } from "./open-address.ts";
import { namedMembers, openMembership, ownMember } from "./open-membership.ts";
import { openTracer } from "./open-tracer.ts";
import { createReloader } from "./reloading.ts";
import { openKnowledge } from "./router-knowledge.ts";
import { routerThreads } from "./router-threads.ts";
import { stopCode, stopped } from "./stop-code.ts";

/** A start waits no longer for agents and kvcacheds that are listed: they may be gone. */
const SETTLE_MS = 3_000;

/** Of a lease: so that nobody is sent to a dead host when it is over, even where this process is slow to notice. */
const HOST_LOST_SHARE = 0.75;

/** `cgn router`: the front door as a process of its own. */
export const routerCommand: Command = {
  name: "router",
  about: "run the router on its own, before engines that an agent or somebody else runs",
  examples: [
    "cgn router --listen 127.0.0.1:8080 --admin 127.0.0.1:9091 --engine http://127.0.0.1:8000",
    "cgn router --engines http://10.0.0.5:8000 http://10.0.0.6:8000",
    "cgn router --engine http://127.0.0.1:8000,kind=vllm,events=tcp://127.0.0.1:5557,tokenizer=/models/qwen3",
    "cgn router --config cgn.toml --kvcached unix:/run/cognitora/kv.sock",
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...LOG_OPTIONS,
    listen: { type: "string", value: "HOST:PORT", about: "address for clients (router.listen_http)" },
    admin: { type: "string", value: "HOST:PORT", about: "address of the admin port (router.listen_admin)" },
    policy: { type: "string", value: "NAME", about: "routing policy (router.policy)", offers: POLICY_NAMES },
    engine: {
      type: "string[]",
      value: "URL[,KEY=VALUE]",
      about:
        "an engine that somebody else runs; keys: kind, model, role, bootstrap, events, replay, tokenizer. May be repeated",
    },
    engines: { type: "string[]", value: "URL", variadic: true, about: "several plain ones" },
    agent: { type: "string[]", value: "URL|unix:PATH", about: "follow this agent's engines. May be repeated" },
    kvcached: {
      type: "string[]",
      value: "URL|unix:PATH",
      about: "keep a copy of this kvcached's index, and match there; without it one is embedded. May be repeated",
    },
  },
  async run({ options }, cli) {
    const load = async (): Promise<Settings> => loadForCommand(options, cli, shortcuts(options));
    const settings = await load();
    const log = commandLog(options, cli);
    warnOfOpenAddress(settings.router.listenHttp, log, settings.auth);
    const membership = await openMembership(settings, { clock: cli.clock, log });
    try {
      const parts = openFleet(settings, options, cli, log, membership);
      try {
        await runUntilStopped({ settings, load }, options, cli, log, parts);
      } finally {
        parts.close();
      }
    } finally {
      await membership.close();
    }
    return stopCode(cli.signal);
  },
};

function shortcuts(options: Values): Shortcuts {
  const keys = { listen: "router.listen_http", admin: "router.listen_admin", policy: "router.policy" } as const;
  const given = Object.entries(keys).flatMap(([name, key]) => {
    const value = options[name];
    return typeof value === "string" ? [[key, { flag: `--${name}`, value }] as const] : [];
  });
  return Object.fromEntries(given);
}

interface FleetParts {
  readonly directory: WorkerDirectory;
  /** The engines that this process watches itself: nobody else registers them with a kvcached elsewhere. */
  readonly adopted: WorkerDirectory;
  readonly membership: Membership;
  readonly tls: WireTls;
  /** Of addresses that have our certificate. */
  readonly scheme: "http" | "https";
  /** The agents, as those who load models; undefined: there are none. */
  readonly loader: ModelLoader | undefined;
  readonly first: Promise<void>;
  /** Resolves when the agents were heard, after `ms` at the latest. */
  settled(ms: number): Promise<void>;
  close(): void;
}

const textsOf = (options: Values, name: string): readonly string[] =>
  (options[name] as readonly string[] | undefined) ?? [];

/** Do daemons find each other? With `memory` only flags, and what one file says of its own host, name them. */
const isShared = ({ cluster }: Settings): boolean => cluster.stateBackend !== "memory";

/** Who is there: engines and agents named by flags, else those of the file; and the agents of the cluster. */
function openFleet(
  settings: Settings,
  options: Values,
  { clock }: CliContext,
  log: Log,
  membership: Membership,
): FleetParts {
  const named = [...textsOf(options, "engine"), ...textsOf(options, "engines")].map(parseEngineSpec);
  const agentTexts = textsOf(options, "agent");
  const byFlags = named.length + agentTexts.length > 0;
  const specs = byFlags ? named : settings.engines.filter((engine) => !engine.spawn).map(specOf);
  const { host, port } = settings.agent.listen;
  const tls = openTls(settings.security, { clock, log });
  const unguard = guardOutgoing(tls);
  const scheme = tls.serverOptions() === undefined ? "http" : "https";
  const ownAgent = isShared(settings) ? [] : [`${scheme}://${hostPort(dialHost(host), port)}`];
  const agents = namedMembers("agent", byFlags ? agentTexts : ownAgent);
  const adopted = createMemoryDirectory();
  const watch = watchEngines({ specs, engines: ENGINES, directory: adopted, clock, log });
  const hostLostMs = settings.cluster.leaseTtlMs * HOST_LOST_SHARE;
  const followed = followAgents({ memberships: [agents, membership], clock, tls, first: [adopted], hostLostMs });
  const hasAgents = isShared(settings) || agents.list().length > 0;
  return {
    directory: followed.directory,
    loader: hasAgents ? followed.loader : undefined,
    adopted,
    membership,
    tls,
    scheme,
    first: watch.first,
    settled: (ms) => followed.settled(ms),
    close() {
      tls.close();
      unguard();
      watch.close();
      followed.close();
    },
  };
}

/** An engine of the file that somebody else starts. */
function specOf({ url, kind, model, role, slot }: Settings["engines"][number]): EngineSpec {
  const bootstrapPort = slot.prefillBootstrapPort;
  return {
    url,
    kind,
    role,
    tokenizer: tokenizerSource(model),
    ...(bootstrapPort === undefined ? {} : { bootstrapPort }),
    ...(model.name === "" ? {} : { model: model.name }),
  };
}

async function runUntilStopped(
  { settings, load }: { readonly settings: Settings; readonly load: () => Promise<Settings> },
  options: Values,
  cli: CliContext,
  log: Log,
  parts: FleetParts,
): Promise<void> {
  const { clock, env, signal } = cli;
  const { membership } = parts;
  const kvcacheds = textsOf(options, "kvcached");
  const metrics = createMetrics();
  countTls(metrics, parts.tls);
  const knowledge = openKnowledge({
    memberships: [
      ...(kvcacheds.length === 0 ? [] : [namedMembers("kvcached", kvcacheds)]),
      ...(isShared(settings) ? [membership] : []),
    ],
    tls: parts.tls,
    metrics,
    settings,
    clock,
    log,
    env,
    directory: parts.directory,
    adopted: parts.adopted,
  });
  const templates = createModelTemplates({ env, clock, log });
  const guarded = await openAccessOf(settings, { clock, log });
  const tracer = openTracer(settings, { clock, log, metrics });
  const reloader = createReloader({ load, settings, agent: () => undefined, router: () => router, log, cli });
  const router = createRouter({
    settings: settings.router,
    directory: parts.directory,
    knowledge: knowledge.prefixes,
    ...(knowledge.bookings === undefined ? {} : { bookings: knowledge.bookings }),
    renderers: templates,
    membership,
    tls: parts.tls,
    engineTls: () => outgoingOptions(parts.tls),
    ...guarded,
    tracer,
    ...routerThreads(settings, env),
    clock,
    log,
    metrics,
    ...(parts.loader === undefined ? {} : { loader: parts.loader }),
    extras: {
      sources: knowledge.sources,
      templates: templates.problems,
      posts: { [RELOAD_PATH]: () => reloader.reload() },
    },
  });
  try {
    // Who comes in place of another router must not answer before it knows what that one did.
    await Promise.all([parts.settled(SETTLE_MS), knowledge.settled(SETTLE_MS)]);
    await router.start();
    await parts.first;
    const { address, adminAddress } = router;
    const adminScheme = isLoopbackHost(settings.router.listenAdmin.host) ? "http" : parts.scheme;
    cli.err(
      `Router listens on ${parts.scheme}://${hostPort(address.host, address.port)}, admin on ${adminScheme}://${hostPort(adminAddress.host, adminAddress.port)}`,
    );
    const own = ownMember("router", { ...address, scheme: parts.scheme }, settings.router.nodeId, settings, clock);
    const withdraw = membership.announce(own);
    await stopped(signal);
    cli.err("Draining");
    await withdraw();
    await router.drain(settings.agent.drainGraceMs);
  } finally {
    reloader.close();
    await router.close();
    guarded.access.close();
    await tracer?.close();
    knowledge.close();
  }
}
