import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSnapshotStatus, KvSourceStatus, KvStats } from "../core/kv-status.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { MatchQuery, PredictionVerdict, PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import { holdsNothing, type WorkerDirectory, type WorkerInfo } from "../core/worker.ts";
import type { IndexStats, PrefixIndex, PrefixMatch, WorkerSlot } from "../kvindex/prefix-index.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { KvNote } from "../wire/kv-note.ts";
import type { KvService } from "../wire/kv-server.ts";
import { NO_SNAPSHOT } from "../wire/stats-message.ts";
import { AppliedIndex, type AppliedListener } from "./applied-index.ts";
import { journalBytes } from "./change-journal.ts";
import type { FollowDeps, RestoredWorker } from "./follow-deps.ts";
import { FollowedWorker } from "./followed-worker.ts";
import { exportKvMetrics } from "./kv-metrics.ts";
import { matchWorkers } from "./match-workers.ts";
import { createParityProbe } from "./parity-probe.ts";
import { decodePrompt } from "./prompt-tokens.ts";
import { SourceDiscovery } from "./source-discovery.ts";
import type { SourcePolicy } from "./source-state.ts";
import { Trust, type TrustOptions } from "./trust.ts";
import { exportTruthMetrics } from "./truth-metrics.ts";
import { createVocabularies } from "./vocabularies.ts";
import { WatchHub } from "./watch-hub.ts";
import { WorkTurns } from "./work-turns.ts";

export interface KvcachedOptions {
  readonly clock: Clock;
  readonly log?: Log;
  /** Hard cap of the index in bytes. */
  readonly capBytes: number;
  /** Secret of the block hash, random per process. */
  readonly seed: number;
  /** Where the hub cache lies. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly policy?: SourcePolicy;
  /** Where `cgn_kvcached_*` are exported; by default nowhere. */
  readonly metrics?: Metrics;
  /** The API key of an engine that asks for one, where it is known (the agent of this process started it). A secret. */
  readonly apiKey?: (id: WorkerId) => string | undefined;
  /** This run, for watchers; random by default. */
  readonly instance?: string;
  /** Resolved once what a file of the last run says is in the index; watchers wait for it. Default: at once. */
  readonly ready?: Promise<void>;
  /** Changes kept for watchers that were cut, in bytes. Default 64 MiB. */
  readonly watchLogBytes?: number;
  /** State of the snapshot on disk, for `stats()`. */
  readonly snapshot?: () => KvSnapshotStatus;
  /** How engines are asked (parity probe). Default `fetch`. */
  readonly fetch?: typeof fetch;
  /** Where generated tokens are checked. Default: a thread, started with the first worker that publishes events. */
  readonly startCheck?: TrustOptions["startCheck"];
}

/** What a file says of a worker besides what it held. */
export type WrittenWorker = Pick<RestoredWorker, "resume" | "shape">;

export interface ResumableWorker extends WrittenWorker {
  readonly info: WorkerInfo;
  readonly slot: WorkerSlot;
}

/** A worker that is being restored. */
export interface Restoring {
  /** Place a part of what it held. False: it cannot be read. */
  load(chunk: Uint8Array): boolean;
  /** All parts are there: its events may be read. */
  done(): void;
}

/** The prefix index as a service: follows workers, answers the router. `match` is immediate. */
export interface Kvcached extends KvService, PrefixKnowledge {
  match(query: MatchQuery): readonly WorkerMatch[];
  /** Hear of each change of the index from now on, in its order; the result ends it. */
  onApplied(listener: AppliedListener): () => void;
  /** Follow all workers of a directory, as they come and go; the result ends it. */
  follow(directory: WorkerDirectory): () => void;
  /**
   * Follow a worker that another run followed, with what it wrote down: it counts once the engine has proved it.
   * @returns where its chunks go, until `done()`; undefined when the worker is followed already
   */
  restore(info: WorkerInfo, written: WrittenWorker, settled: RestoredWorker["settled"]): Restoring | undefined;
  /** Stop following what was restored and nobody registered since. */
  dropUnclaimed(): readonly WorkerId[];
  /** The workers whose part a snapshot is worth, with what another run needs to go on. */
  resumable(): readonly ResumableWorker[];
  /** All that are followed. */
  workers(): readonly WorkerInfo[];
  /** The index itself, for a snapshot. */
  readonly index: PrefixIndex;
  /** What an agent knows ahead of the engine. `restarted` and `reset`: the cache is empty. */
  agentNotice(id: WorkerId, what: "restarted" | "reset"): void;
  close(): void;
}

/** Make a service that follows nobody yet. Opens sockets only for registered workers. */
export function createKvcached(options: KvcachedOptions): Kvcached {
  const log = options.log ?? SILENT_LOG;
  const index = createPrefixIndex({ capBytes: options.capBytes, seed: options.seed });
  const applied = new AppliedIndex(index);
  const workers = new Map<WorkerId, FollowedWorker>();
  const instance = options.instance ?? randomUUID();
  /** Of routers: what is looked up to explain a prediction does not count. */
  const asked = { lookups: 0, hits: 0 };
  const indexStats = (): IndexStats => ({ ...index.stats(), ...asked });
  const sources = (): readonly KvSourceStatus[] => [...workers.values()].map((worker) => trust.statusOf(worker));
  const metrics = options.metrics && exportKvMetrics(options.metrics, indexStats, sources, () => hub.watchers().length);
  const truthMetrics = options.metrics && exportTruthMetrics(options.metrics, sources);
  /** Restored ones that nobody registered since. */
  const unclaimed = new Set<FollowedWorker>();
  const ready = options.ready ?? Promise.resolve();
  const logBytes = options.watchLogBytes === undefined ? {} : { logBytes: options.watchLogBytes };
  const hub = new WatchHub({ index: applied, clock: options.clock, instance, workers, sources, ready, ...logBytes });
  const changed = () => hub.changed();
  const { clock, env, startCheck } = options;
  const ask = options.fetch ?? fetch;
  const trust = new Trust({ index: applied, clock, log, env, fetch: ask, workers, changed, startCheck });
  const deps: FollowDeps = {
    index: applied,
    turns: new WorkTurns(options.clock),
    journalBytes: () => journalBytes(workers.size),
    clock: options.clock,
    log,
    vocabularies: createVocabularies(options.env),
    ...(options.policy === undefined ? {} : { policy: options.policy }),
    parity: createParityProbe(options.fetch ?? fetch, options.apiKey),
    changed,
    ...(metrics === undefined ? {} : { events: metrics.events }),
  };
  const unregister = (id: WorkerId): boolean => {
    if (!workers.has(id)) return false;
    workers.get(id)?.close();
    workers.delete(id);
    discovery.forget(id);
    trust.forget(id);
    truthMetrics?.forget(id);
    metrics?.forget(id);
    changed();
    return true;
  };
  const discovery = new SourceDiscovery(ask, options.apiKey);
  const register = (registered: WorkerInfo) => {
    const known = workers.get(registered.id);
    // The run before found its events where nobody told of them.
    const foundBefore = known !== undefined && unclaimed.delete(known) && isTold(registered, known.info);
    if (foundBefore) discovery.remember(registered, known.info);
    const info = discovery.resolved(registered);
    if (info.state === "asleep" && known !== undefined) {
      if (info.epoch > known.info.epoch) known.slept(info);
      return;
    }
    // A worker that is down holds nothing, unless it only hangs; a late word of an earlier process changes nothing.
    if (holdsNothing(info.state)) {
      // One of its watchers cannot reach it. If it is gone, its events end too.
      if (known !== undefined && known.knownBy !== "history" && isSeenByAnother(known.info, info)) return;
      if (info.alive === true && (known === undefined || sameCache(known.info, info))) return;
      if (known !== undefined && info.epoch >= known.info.epoch) unregister(info.id);
      return;
    }
    if (known !== undefined) {
      if (known.knownBy !== "history" && isSeenByAnother(known.info, info)) return known.seen(info);
      if (sameCache(known.info, info)) return;
      if (info.epoch < known.info.epoch) return;
      known.close();
    }
    const worker = new FollowedWorker(info, deps);
    workers.set(info.id, worker);
    trust.follow(worker);
    hub.followed(worker);
    changed();
    void discovery.look(registered, () => workers.get(info.id) === worker && register(registered));
  };
  const restore: Kvcached["restore"] = (info, written, settled) => {
    // Its agent was quicker than the file: of the same process the file still knows more.
    const known = workers.get(info.id);
    if (known !== undefined && !sameCache(known.info, info)) {
      settled(false, "its agent registered it otherwise than it was written down");
      return undefined;
    }
    known?.close();
    let done = () => {};
    const loaded = new Promise<void>((resolve) => {
      done = resolve;
    });
    const worker = new FollowedWorker(info, deps, { ...written, loaded, settled });
    workers.set(info.id, worker);
    trust.follow(worker);
    if (known === undefined) unclaimed.add(worker);
    changed();
    // Once an agent said that it was emptied, or that it is another process, the rest is void.
    const holds = () => workers.get(info.id) === worker && worker.knownBy === "unproved";
    return { load: (chunk) => !holds() || index.load(worker.slot, chunk), done };
  };
  applied.onApplied(({ id, slot }, change) => {
    const worker = workers.get(id);
    if (worker?.slot === slot) worker.heard(change);
  });
  const hear = (note: KvNote, judged: (verdict: PredictionVerdict) => void = () => {}) => {
    const worker = workers.get(note.worker);
    if (worker === undefined) return;
    const elsewhere = note.origin !== undefined;
    // Its copies do as it does; a worker that is known by events changes by them alone.
    if (worker.knownBy === "history") hub.note(note);
    if (note.type === "observed") {
      trust.observed(worker, note.outcome);
      worker.observe(note.outcome, (verdict) => {
        if (workers.get(note.worker) === worker) {
          trust.judged(worker, verdict);
          metrics?.judged(note.worker, verdict.result);
        }
        judged(verdict);
      });
      return;
    }
    const { root, prompt } = note.query;
    if (note.type === "unsent") worker.unsent(root, prompt);
    else {
      trust.sent(worker, note.query);
      const { matchedMs } = note.query;
      worker.sent(root, prompt, { elsewhere, ...(matchedMs === undefined ? {} : { matchedMs }) });
    }
  };
  const found: PrefixMatch[] = [];
  const service: Kvcached = {
    match(query) {
      const start = options.clock.now();
      query.matchedMs = start;
      const inIndex = index.match(query.root, query.prompt, found);
      asked.lookups++;
      if (inIndex.length > 0) asked.hits++;
      const answer = matchWorkers(query, workers, inIndex);
      metrics?.lookup(options.clock.now() - start);
      return answer;
    },
    sent: (worker, query) => hear({ type: "sent", worker, query }),
    unsent: (worker, query) => hear({ type: "unsent", worker, query }),
    observe: (outcome, judged) => hear({ type: "observed", worker: outcome.worker, outcome }, judged),
    hear: (note) => hear(note),
    watch: (ask, signal) => hub.watch(ask, signal),
    register,
    unregister,
    restore,
    dropUnclaimed() {
      const ids = [...unclaimed].filter((worker) => workers.get(worker.info.id) === worker).map(({ info }) => info.id);
      unclaimed.clear();
      for (const id of ids) unregister(id);
      return ids;
    },
    resumable: () =>
      [...workers.values()].flatMap((worker) => {
        const { resumable, info, slot } = worker;
        return resumable === undefined ? [] : [{ ...resumable, info, slot }];
      }),
    workers: () => [...workers.values()].map(({ info }) => info),
    index,
    sources,
    stats: (): KvStats => ({
      ...statsOf(indexStats()),
      snapshot: options.snapshot?.() ?? NO_SNAPSHOT,
      watchers: hub.watchers(),
      instance,
    }),
    decodePrompt: (model, tokenIds) => decodePrompt(workers.values(), model, tokenIds),
    knowsModel: (model) => [...workers.values()].some(({ info }) => info.models.includes(model)),
    onApplied: (listener) => applied.onApplied(listener),
    follow: (directory) => followDirectory(directory, register, unregister),
    agentNotice: (id, what) => workers.get(id)?.notice(what),
    close() {
      metrics?.close();
      truthMetrics?.close();
      trust.close();
      hub.close();
      for (const worker of workers.values()) worker.close();
      workers.clear();
    },
  };
  return service;
}

function followDirectory(
  directory: WorkerDirectory,
  register: (info: WorkerInfo) => void,
  unregister: (id: WorkerId) => unknown,
): () => void {
  let followed = new Set<WorkerId>();
  const take = (list: readonly WorkerInfo[]) => {
    // A worker that is down holds nothing any more; a starting one is subscribed to early, so that no event is missed.
    // One that sleeps is followed on: its process and its publisher live.
    const lives = ({ state, alive }: WorkerInfo): boolean =>
      !holdsNothing(state) || state === "asleep" || alive === true;
    const alive = list.filter(lives);
    const ids = new Set(alive.map((worker) => worker.id));
    for (const id of followed) if (!ids.has(id)) unregister(id);
    for (const worker of alive) register(worker);
    followed = ids;
  };
  take(directory.list());
  return directory.subscribe(take);
}

/** Is it the worker that another run knew by events, told without them? */
function isTold(registered: WorkerInfo, known: WorkerInfo): boolean {
  const same = registered.epoch === known.epoch && registered.url === known.url;
  return same && registered.kv.type === "history" && known.kv.type === "events";
}

/**
 * Is it an engine that nobody of cgn starts, as another one sees it who watches it too, or as its watcher saw it before it had answered? What its
 * events said stays good: that it is another process shows in them, and a router that starts later is no sign of it.
 */
function isSeenByAnother(known: WorkerInfo, info: WorkerInfo): boolean {
  if (known.watched !== true || info.watched !== true || info.kv.type !== "events") return false;
  const of = (w: WorkerInfo) => [w.url, w.kind, w.kv, w.tokenizer, w.models, w.upstreamModel];
  return JSON.stringify(of(known)) === JSON.stringify(of(info));
}

/** Is it the same process with the same cache, so that what is known of it stays good? */
function sameCache(a: WorkerInfo, b: WorkerInfo): boolean {
  const of = (w: WorkerInfo) => [
    w.epoch,
    w.kind,
    w.kv,
    w.tokenizer,
    w.models,
    w.upstreamModel,
    w.blockTokens,
    w.state === "starting",
  ];
  return JSON.stringify(of(a)) === JSON.stringify(of(b));
}

function statsOf(stats: IndexStats): Omit<KvStats, "snapshot" | "watchers" | "instance"> {
  const { workers, runs, blocks, bytes, capBytes, lookups, hits, blocksByTier: tiers } = stats;
  return { workers, runs, blocks, bytes, capBytes, lookups, hits, tiers };
}
