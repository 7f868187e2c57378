import type { WorkerInfo } from "../core/worker.ts";
import type { RouterCore } from "./core.ts";

/** What other parts of the process add to the admin port. */
export interface AdminExtras {
  /** State of the knowledge about each worker's cache (kvcached's sources), for `/v1/cgn/status`. */
  sources?(): unknown;
  /** Problems with chat templates by model, for `/v1/cgn/status`. */
  templates?(): Readonly<Record<string, string>>;
  /** More about engines that this process keeps, by id, for the dashboard. */
  engines?(): Readonly<Record<string, object>>;
  /** The last lines that an engine wrote; undefined: it is not kept by this process. */
  logs?(engine: string, lines: number): Promise<readonly string[] | undefined>;
  /** What may be asked for with POST, by path, and what is answered. */
  readonly posts?: Readonly<Record<string, (query: URLSearchParams) => Promise<object>>>;
}

/** `/readyz`: ready when some worker takes requests. */
export interface Readiness {
  readonly ready: boolean;
  readonly draining: boolean;
  readonly models: Readonly<Record<string, { readonly ready: number; readonly workers: number }>>;
  /** Why each worker that takes no requests does not. */
  readonly notReady: Readonly<Record<string, string>>;
}

export function readiness(core: RouterCore, draining: boolean): Readiness {
  const groups = core.fleet.models().map((model) => core.fleet.group(model)!);
  const notReady: Record<string, string> = {};
  for (const worker of core.fleet.workers()) {
    const why = core.fleet.whyNot(worker);
    if (why !== undefined) notReady[worker.id] = why;
  }
  return {
    // A model that is loaded when it is wanted is as good as ready.
    ready: !draining && groups.some((group) => group.ready.length > 0 || core.waits.wouldWait(group)),
    draining,
    models: Object.fromEntries(groups.map((g) => [g.model, { ready: g.ready.length, workers: g.workers.length }])),
    notReady,
  };
}

/** `/v1/cgn/status`: what the router knows, for `cgn status`, `cgn top` and the dashboard. */
export function status(core: RouterCore, nodeId: string, draining: boolean, extras: AdminExtras | undefined): object {
  return {
    node: nodeId,
    draining,
    policy: core.settings.policy,
    access: core.access.status(),
    ...(core.tracer === undefined ? {} : { tracing: core.tracer.status() }),
    ...(core.federation === undefined ? {} : { federation: core.federation.status() }),
    models: core.fleet.models().map((model) => modelStatus(core, model, extras)),
    workers: core.fleet.workers().map((worker) => workerStatus(core, worker)),
    ...(extras?.sources === undefined ? {} : { sources: extras.sources() }),
  };
}

function modelStatus(core: RouterCore, model: string, extras: AdminExtras | undefined): object {
  const group = core.fleet.group(model);
  const problem = extras?.templates?.()[model];
  return {
    model,
    workers: group?.workers.length ?? 0,
    ready: group?.ready.length ?? 0,
    running: core.admissions.running(model),
    queued: core.admissions.queued(model),
    waitingForLoad: core.waits.waiting(model),
    bytesPerToken: core.learning.ratio(model, true).bytesPerToken(),
    ...(problem === undefined ? {} : { problem }),
  };
}

function workerStatus(core: RouterCore, worker: WorkerInfo): object {
  const load = core.loads.of(worker.id);
  const takes = core.fleet.whyNot(worker) ?? core.fleet.whyHeldBack(worker);
  const unpaired = core.fleet.whyUnpaired(worker.id);
  const caution = core.fleet.cautionOf(worker.id);
  const { at: breaker } = core.health.breaker(worker.id);
  return {
    id: worker.id,
    node: worker.node,
    kind: worker.kind,
    url: worker.url,
    models: worker.models,
    role: worker.role,
    state: worker.state,
    reason: worker.reason,
    epoch: worker.epoch,
    takesRequests: takes === undefined,
    breaker,
    ...(worker.onDemand === true ? { onDemand: true } : {}),
    ...(takes === undefined ? {} : { whyNot: takes }),
    ...(worker.blockTokens === undefined ? {} : { blockTokens: worker.blockTokens }),
    ...(unpaired === undefined ? {} : { unpaired }),
    ...(caution === undefined ? {} : { pairCaution: caution }),
    kv: worker.kv.type,
    ...(worker.figures === undefined ? {} : { figures: worker.figures }),
    load: { inFlight: load.inFlight, queuedTokens: load.queuedTokens, streams: load.streams },
    rates: core.learning.rates(worker.id, worker.models[0] ?? ""),
    cache: core.metrics.cacheOf(worker.id),
  };
}
