import { randomUUID } from "node:crypto";
import type { SecureContextOptions } from "node:tls";
import { type Access, OPEN_ACCESS } from "../access/access.ts";
import { createMemoryMembership } from "../cluster/memory-membership.ts";
import { DEFAULT_ANSWERS } from "../config/answer-schema.ts";
import type { RouterSettings } from "../config/settings.ts";
import type { BookingExchange } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { isLoopbackHost } from "../engines/address.ts";
import { ENGINES } from "../engines/registry.ts";
import { optionalCertificates } from "../http/client-certificates.ts";
import { type HttpServer, type HttpTls, startHttpServer } from "../http/server.ts";
import { DEFAULT_TIMEOUTS, Upstreams, type UpstreamTimeouts } from "../http/upstream.ts";
import { Learning } from "../routing/learning.ts";
import { LoadBook } from "../routing/load.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import { Abilities } from "./abilities.ts";
import { createAdmin } from "./admin.ts";
import { Admissions } from "./admit.ts";
import { askHealth } from "./ask-health.ts";
import { BookShare } from "./book-share.ts";
import type { RouterCore } from "./core.ts";
import { DecisionLog } from "./decisions.ts";
import { DemandReport } from "./demand-report.ts";
import { EngineGauges } from "./engine-gauges.ts";
import { Federation } from "./federation.ts";
import { Fleet } from "./fleet.ts";
import { HotPrefixes } from "./hot-prefixes.ts";
import { openFrontDoor } from "./open-front-door.ts";
import type { RendererSource } from "./render.ts";
import { RequestLog } from "./request-log.ts";
import { RouterMetrics } from "./router-metrics.ts";
import { SharedTuning } from "./shared-tuning.ts";
import { createSplitter } from "./splitter.ts";
import type { AdminExtras } from "./status.ts";
import type { ThreadOptions } from "./threads/threaded-server.ts";
import { TrafficHistory } from "./traffic-history.ts";
import { type TunedSettings, Tuning } from "./tuning.ts";
import { WaitRoom } from "./wait-room.ts";
import { WorkerHealth } from "./worker-health.ts";

/** What a router is made of. `settings` needs only the keys that it reads. */
export interface RouterOptions {
  readonly settings: Pick<
    RouterSettings,
    | "listenHttp"
    | "listenAdmin"
    | "nodeId"
    | "policy"
    | "maxBodyBytes"
    | "scoreWeights"
    | "admission"
    | "loadWait"
    | "requestLog"
    | "cors"
  > &
    Partial<Pick<RouterSettings, "answers" | "modelAnswers" | "disagg" | "federation" | "cascades">>;
  /** Who may do what; without it everybody may ask, and nobody is limited. The caller closes it. */
  readonly access?: Access;
  /** The key that an engine asks for: sent for callers whose own key was checked. */
  readonly engineKey?: (worker: WorkerId) => string | undefined;
  /** Off loopback `/metrics` of the admin port asks for a key too. */
  readonly protectMetrics?: boolean;
  /** Without it nothing is traced. The caller closes it. */
  readonly tracer?: Tracer | undefined;
  /** Longest prompt by model. */
  readonly maxPromptTokens?: ReadonlyMap<string, number>;
  readonly directory: WorkerDirectory;
  readonly knowledge: PrefixKnowledge;
  readonly renderers: RendererSource;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly timeouts?: UpstreamTimeouts;
  /** Certificates of the front door, and of the admin port off loopback. */
  readonly tls?: HttpTls;
  /** What connections to engines that speak TLS are made with, asked at each new one. */
  readonly engineTls?: () => SecureContextOptions;
  /** Who loads models that requests wait for; without one nobody waits. */
  readonly loader?: ModelLoader;
  /** Who else is there, and where marks of `cgn cordon` are kept. Default: nobody, and in memory. The caller closes it. */
  readonly membership?: Membership;
  /** How routers hear of each other's bookings, where there are several. */
  readonly bookings?: BookingExchange;
  /** Several threads have clients' connections; without it this one has. */
  readonly threads?: ThreadOptions | undefined;
  /** More that the admin port shows, from parts the router does not know. */
  readonly extras?: AdminExtras;
}

/** The front door: an OpenAI-compatible server that sends each request where it will be answered soonest. */
export interface Router {
  /**
   * Listen.
   * @throws CgnError PORT_IN_USE
   */
  start(): Promise<void>;
  /** Take no new connections, let requests end within the grace, then cut them. The admin port stays until `close()`. */
  drain(graceMs: number): Promise<void>;
  close(): Promise<void>;
  /**
   * Choose, admit and cascade by other settings from the next request on; what was learnt stays.
   * @throws CgnError CONFIG_INVALID for a policy that there is not; nothing has changed then
   */
  retune(settings: TunedSettings): void;
  /** Known after `start()`. */
  readonly address: { readonly host: string; readonly port: number };
  readonly adminAddress: { readonly host: string; readonly port: number };
  readonly core: RouterCore;
}

/**
 * Put a router together; nothing listens before `start()`.
 * @throws CgnError CONFIG_INVALID for a policy that there is not
 */
export function createRouter(options: RouterOptions): Router {
  const { settings } = options;
  const membership = options.membership ?? createMemoryMembership();
  const shared = new SharedTuning(settings, membership, options.log);
  const tuning = new Tuning({ ...shared.current(), cascades: settings.cascades ?? {} });
  const core = createCore(options, tuning);
  core.fleet.setMarks(membership.marks());
  const leaveMembership = membership.subscribe(() => {
    core.fleet.setMarks(membership.marks());
    const tuned = shared.changed();
    if (tuned !== undefined) tuning.retune(tuned, core.admissions);
  });
  let http: HttpServer | undefined;
  let admin: HttpServer | undefined;
  let draining = false;
  const stopStoreScrape = options.metrics.onScrape(() => {
    const { store, state } = core.access.limitStore();
    options.metrics.gauge("cgn_router_limit_store_ready", store).set(state === "ready" ? 1 : 0);
  });
  const stopScrape = core.metrics.onScrape(() => ({
    workers: core.fleet.workers(),
    inFlight: (id) => core.loads.of(id).inFlight,
    takesRequests: (worker) => core.fleet.whyNot(worker) === undefined,
    waiting: (model) => core.waits.waiting(model),
    connections: http?.connections() ?? 0,
  }));
  const started = (server: HttpServer | undefined): HttpServer => {
    if (server === undefined) throw new TypeError("The router has no address before start()");
    return server;
  };
  return {
    core,
    async start() {
      http = await openFrontDoor(options, core);
      try {
        // On loopback commands of this host use it without certificates.
        const tls = isLoopbackHost(settings.listenAdmin.host) ? undefined : options.tls;
        const handle = createAdmin({
          core,
          metrics: options.metrics,
          settings,
          protectMetrics: options.protectMetrics ?? false,
          loader: options.loader,
          membership,
          shared,
          tls,
          extras: options.extras,
          draining: () => draining,
        });
        const listen = settings.listenAdmin;
        admin = await startHttpServer({ name: "admin", listen, tls: optionalCertificates(tls), handle });
      } catch (e) {
        await http.close(0);
        throw e;
      }
    },
    async drain(graceMs) {
      draining = true;
      await http?.close(graceMs);
    },
    async close() {
      draining = true;
      stopScrape();
      stopStoreScrape();
      await http?.close(0);
      await admin?.close(0);
      leaveMembership();
      core.fleet.close();
      core.health.close();
      core.history.close();
      core.demand?.close();
      core.share?.close();
      core.federation?.close();
      core.requestLog?.close();
      await core.upstreams.close();
    },
    retune(next) {
      const { cascades } = next;
      tuning.retune({ ...shared.rebase(next), ...(cascades === undefined ? {} : { cascades }) }, core.admissions);
    },
    get address() {
      return started(http).address;
    },
    get adminAddress() {
      return started(admin).address;
    },
  };
}

function createCore(options: RouterOptions, tuning: Tuning): RouterCore {
  const { settings, clock, log } = options;
  const loads = new LoadBook();
  const share = options.bookings === undefined ? undefined : new BookShare(options.bookings, loads, clock);
  const learning = new Learning();
  const history = new TrafficHistory(clock, () => ({
    inFlight: sumOf(fleet.workers(), ({ id }) => loads.of(id).inFlight),
    queued: sumOf(fleet.models(), (model) => admissions.queued(model) + waits.waiting(model)),
  }));
  const metrics = new RouterMetrics(options.metrics, history);
  const abilities = new Abilities(clock);
  const upstreams = new Upstreams(options.timeouts ?? DEFAULT_TIMEOUTS, options.engineTls);
  const admissions = new Admissions(tuning.admission, clock);
  const lost = (worker: WorkerInfo, reason: string): void => {
    const { inFlight } = loads.of(worker.id);
    // A start or a stop in order has nothing in flight, and is the agent's news.
    const say = inFlight > 0 ? log.warn : log.debug;
    say("An engine is lost to the router; what ran there ends", { worker: worker.id, reason, inFlight });
    loads.lost(worker.id, reason);
    health.restarted(worker);
    // A process that hangs on its way out waits for its connections to close (vLLM 0.32 after SIGTERM).
    upstreams.forget(worker.url);
  };
  const health = new WorkerHealth({
    clock,
    log,
    random: Math.random,
    look: (worker) => askHealth(ENGINES, worker),
    onChange() {
      fleet.healthChanged();
      admissions.wake();
    },
    onMoved: (id, breaker) => metrics.breakerMoved(id, breaker),
  });
  const changed = (): void => {
    const ids = new Set(fleet.workers().map((w) => w.id));
    for (const id of loads.sweep(ids)) {
      learning.forget(id);
      splitter.forget(id);
      metrics.forget(id);
      health.forget(id);
      abilities.forget(id);
    }
    admissions.wake();
    waits.wake();
    demand?.changed();
    warm();
  };
  const splitter = createSplitter(settings.disagg);
  const fleet = new Fleet(options.directory, lost, changed, (id) => health.heldBack(id), settings.disagg?.splits);
  const { maxQueue } = settings.admission;
  const limits =
    options.loader === undefined
      ? undefined
      : { ...settings.loadWait, ...(maxQueue === undefined ? {} : { maxWaiting: maxQueue }) };
  const waits = new WaitRoom(fleet, limits, clock, () => demand?.changed());
  const demand =
    options.loader === undefined
      ? undefined
      : new DemandReport({
          fleet,
          loads,
          clock,
          loader: options.loader,
          // Two routers of one host may have one name, and an agent must tell them apart.
          router: `${settings.nodeId}/${randomUUID().slice(0, 8)}`,
          demand: () => waits.demand(),
        });
  demand?.changed();
  // Templates are loaded before the first request wants them; nothing waits for them here.
  const warm = (): void => {
    for (const model of fleet.models()) void options.renderers.get(fleet.group(model)!);
  };
  warm();
  return {
    settings: {
      ...settings,
      get policy() {
        return tuning.policyName;
      },
    },
    access: options.access ?? OPEN_ACCESS,
    tracer: options.tracer,
    engineKey: options.engineKey,
    maxPromptTokens: options.maxPromptTokens ?? new Map(),
    get cascades() {
      return tuning.cascades;
    },
    federation:
      settings.federation === undefined ? undefined : new Federation(settings.federation, clock, log, options.metrics),
    fleet,
    knowledge: options.knowledge,
    renderers: options.renderers,
    loads,
    health,
    abilities,
    learning,
    answersOf: (model) => settings.modelAnswers?.[model] ?? settings.answers ?? DEFAULT_ANSWERS,
    random: Math.random,
    chooser: {
      policy: tuning.policy,
      loads,
      ...(share === undefined ? {} : { others: (worker) => share.others.of(worker) }),
      learning,
      clock,
      get perReplica() {
        return tuning.perReplica;
      },
      get ttftSloMs() {
        return tuning.ttftSloMs;
      },
    },
    splitter,
    waits,
    demand,
    share,
    admissions,
    upstreams,
    decisions: new DecisionLog(),
    requestLog: settings.requestLog === undefined ? undefined : new RequestLog(settings.requestLog, clock, log),
    metrics,
    history,
    prefixes: new HotPrefixes(clock),
    gauges: new EngineGauges(ENGINES, clock, (id) => options.engineKey?.(id)),
    clock,
    log,
  };
}

const sumOf = <T>(list: readonly T[], of: (each: T) => number): number => list.reduce((sum, each) => sum + of(each), 0);
