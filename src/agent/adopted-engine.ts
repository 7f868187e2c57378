import type { LaunchPlan } from "../core/launch-plan.ts";
import type { WorkerInfo, WorkerState } from "../core/worker.ts";
import { type EngineProbe, toldSources } from "../engines/engine.ts";
import { servedNames } from "../engines/probe-text.ts";
import { Health, type Verdict } from "../process/health.ts";
import { probeHttp } from "../process/probe.ts";
import type { EngineDeps } from "./engine-deps.ts";
import type { ManagedEngine } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { pause, waitIdle } from "./idle.ts";

const PROBE_TIMEOUT_MS = 8_000;
/** The same for an engine that was ready: as for our own (`process/plan-supervisor.ts`). */
const ANSWER_MS = 3_000;
const ASK_TIMEOUT_MS = 4_000;
/** Looks while it is not there: often at first, so that a start is noticed. */
const AWAY_EVERY_MS = 1_000;
/** After a look without an answer the next one follows soon. */
const SILENT_EVERY_MS = 500;

/** What a running engine says about itself; absent where it does not. */
type Told = Pick<WorkerInfo, "models"> &
  Partial<Pick<WorkerInfo, "adapters" | "kv" | "ranks" | "blockTokens" | "maxModelTokens" | "tokenizer">>;

interface Answers {
  readonly told: Told;
  /** It refused to say something without an API key. */
  readonly wantsKey: boolean;
}

/**
 * An engine that somebody else starts: looked at every heartbeat, asked what it is each time it appears.
 *
 * Its epoch grows when it comes back, and when the start time that it exports (`process_start_time_seconds`) changes: a restart
 * between two looks empties a cache too.
 */
export function adoptedEngine(described: WorkerInfo, plan: LaunchPlan, deps: EngineDeps): ManagedEngine {
  const { settings, engine, clock, log } = deps;
  const end = new AbortController();
  let worker: WorkerInfo = { ...described, reason: "not asked yet" };
  let cordoned = false;
  let startTime: string | undefined;
  const health = new Health();
  /** It is out for its silence, and still the same process as far as anyone knows. */
  let hung = false;
  let wake = (): void => {};
  const firstLook = new Promise<void>((resolve) => (wake = resolve));

  const status = (): EngineStatus => ({
    worker: cordoned && worker.state === "ready" ? { ...worker, state: "draining", reason: "cordoned" } : worker,
    kvOffload: settings.kvOffload,
    spawned: false,
    failed: false,
    stopped: false,
    starts: 0,
    droppedLogBytes: 0,
  });
  const become = (state: WorkerState, reason: string, told?: Told): void => {
    const back = state === "ready" && worker.state !== "ready";
    const epoch = back && !hung ? Math.max(worker.epoch + 1, Math.floor(clock.wall() / 1_000)) : worker.epoch;
    worker = { ...worker, ...told, state, reason, epoch, alive: state === "down" && hung };
    deps.onChange(status());
  };

  /** One look, and what it says. A ready engine (or one that hangs) has less time for its answer. */
  const ask = async (): Promise<{ readonly verdict: Verdict; readonly status: number; readonly path: string }> => {
    const { verdict, answerMs = ANSWER_MS, alivePath } = engine.probe.ready;
    const known = worker.state === "ready" || hung;
    const { method, body } = plan.ready;
    const alive = known && deps.probeUrl === undefined ? alivePath : undefined;
    const path = alive ?? plan.ready.path;
    const computes = deps.probeUrl === undefined && alive === undefined;
    const reply = await probeHttp({
      url: deps.probeUrl ?? `${settings.url}${path}`,
      timeoutMs: known ? answerMs : PROBE_TIMEOUT_MS,
      ...(computes && method !== undefined ? { method } : {}),
      ...(computes && body !== undefined ? { body } : {}),
    });
    const { status } = reply;
    if (reply.unasked) return { verdict: "unasked", status, path };
    if (reply.timedOut) return { verdict: "silent", status, path };
    return { verdict: alive !== undefined && status > 0 ? "ready" : verdict(reply), status, path };
  };

  const look = async (): Promise<void> => {
    const askedMs = clock.now();
    const { verdict, status, path } = await ask();
    if (end.signal.aborted || verdict === "unasked") return;
    const found = health.judge(verdict, false, askedMs, clock.now());
    if (verdict === "silent" && (worker.state === "ready" || hung)) {
      // A busy engine may be late with its answer.
      if (found?.event !== "probe-hung" || hung) return;
      hung = true;
      return become("down", found.why ?? "");
    }
    if (verdict !== "ready") {
      const silent = status === 0 ? `nothing answers at ${settings.url}` : `it answers ${status} to ${path}`;
      if (worker.state !== "down") log.warn("engine is not ready", { reason: silent });
      startTime = undefined;
      hung = false;
      return become("down", silent);
    }
    const seen = await readStartTime(settings.url, engine.probe);
    const restarted = startTime !== undefined && seen !== undefined && seen !== startTime;
    startTime = seen ?? startTime;
    if (restarted) hung = false;
    if (worker.state === "ready" && !restarted) return;
    if (restarted) become("down", "it was restarted");
    await meet();
    hung = false;
  };

  const meet = async (): Promise<void> => {
    const { told, wantsKey } = await askEngine(described, engine.probe, settings.url);
    if (end.signal.aborted) return;
    if (told.models.length === 0) {
      const why = wantsKey ? "it asks for an API key (401)" : "it does not say which model it serves";
      return become("down", `${why}; set its model`);
    }
    log.info("engine is ready", { url: settings.url, models: told.models });
    if (wantsKey) {
      const remedy = "Write its model and kv_events, and [kv].block_size_tokens, or let it answer without a key";
      log.warn(`engine asks for an API key (401): what it does not tell without one stays unknown. ${remedy}`);
    }
    become("ready", "ready", told);
  };

  const watch = async (): Promise<void> => {
    // A probe that computes is not asked of a ready engine more often than each tenth heartbeat.
    const slow = plan.ready.method === "POST" && engine.probe.ready.alivePath === undefined ? 10 : 1;
    while (!end.signal.aborted) {
      await look().catch((err: unknown) => log.warn("engine could not be looked at", { err }));
      wake();
      const ready = worker.state === "ready";
      const often = health.isSilent ? SILENT_EVERY_MS : deps.agent.heartbeatMs * slow;
      await pause(clock, ready ? often : AWAY_EVERY_MS, end.signal);
    }
  };

  const leave = async (): Promise<void> => {
    end.abort();
    wake();
  };
  let watching = false;
  return {
    id: described.id,
    start() {
      if (!watching) void watch();
      watching = true;
    },
    settled: () => firstLook,
    cordon(on) {
      cordoned = on;
      deps.onChange(status());
    },
    idle: (signal) => {
      const { inflight } = deps;
      const known = inflight === undefined ? {} : { inflight: () => inflight(described.id) };
      return waitIdle({ url: settings.url, probe: engine.probe, clock, signal, ...known });
    },
    stop: leave,
    release: leave,
    status,
  };
}

/** Ask for models, block size and event sources. What the configuration says wins. */
async function askEngine(described: WorkerInfo, probe: EngineProbe, url: string): Promise<Answers> {
  let wantsKey = false;
  const text = async (path: string | undefined): Promise<string | undefined> => {
    if (path === undefined) return undefined;
    const { status, body } = await probeHttp({ url: `${url}${path}`, timeoutMs: ASK_TIMEOUT_MS });
    if (status === 401 || status === 403) wantsKey = true;
    return status === 200 ? body : undefined;
  };
  const nameless = Object.keys(described.tokenizer).length === 0 ? probe.tokenizer : undefined;
  const [list, blocks, sources, about] = await Promise.all(
    [probe.models?.path, probe.blockTokens?.path, probe.kvSources?.path, nameless?.path].map(text),
  );
  const tokenizer = about === undefined ? undefined : nameless?.parse(about);
  const served = list === undefined ? [] : (probe.models?.parse(list) ?? []);
  const limit = served[0]?.maxModelTokens;
  const blockTokens = blocks === undefined ? undefined : probe.blockTokens?.parse(blocks);
  const host = new URL(url).hostname;
  const [kv, ...ranks] =
    described.kv.type === "events" || sources === undefined ? [] : toldSources(probe, sources, host);
  const told: Told = {
    ...servedNames(served, described.models),
    ...(described.maxModelTokens !== undefined || limit === undefined ? {} : { maxModelTokens: limit }),
    ...(described.blockTokens !== undefined || blockTokens === undefined ? {} : { blockTokens }),
    ...(kv === undefined ? {} : { kv, ranks }),
    ...(tokenizer === undefined ? {} : { tokenizer }),
  };
  return { told, wantsKey };
}

/** When the engine's process says that it started, as text; undefined where it does not. */
async function readStartTime(url: string, probe: EngineProbe): Promise<string | undefined> {
  if (probe.metrics === undefined) return undefined;
  const { body } = await probeHttp({ url: `${url}${probe.metrics.path}`, timeoutMs: ASK_TIMEOUT_MS });
  return /^process_start_time_seconds(?:\{[^}]*\})? (\S+)/m.exec(body)?.[1];
}
