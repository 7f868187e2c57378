import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSourceStatus, KvWatcher } from "../core/kv-status.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { WorkerSlot } from "../kvindex/prefix-index.ts";
import { deltaToMessage, type KnownBy, type KvDelta, type WatchedWorker } from "../wire/kv-delta.ts";
import type { KvNote } from "../wire/kv-note.ts";
import type { EncodedDelta, WatchAsk, WatchMessage } from "../wire/watch-message.ts";
import type { AppliedChange, AppliedIndex, ChangedWorker } from "./applied-index.ts";
import { VersionMarks } from "./version-marks.ts";
import { WatchLog } from "./watch-log.ts";
import { Watcher } from "./watcher.ts";

/** A followed worker, as far as its watchers are concerned. */
export interface WatchableWorker {
  readonly info: WorkerInfo;
  readonly slot: WorkerSlot;
  readonly knownBy: KnownBy;
  readonly alignTokens: number;
  readonly historyEntries: number;
  historyState(): Uint8Array | undefined;
}

export interface WatchHubOptions {
  readonly index: AppliedIndex;
  readonly clock: Clock;
  /** This run of kvcached; random. */
  readonly instance: string;
  readonly workers: ReadonlyMap<WorkerId, WatchableWorker>;
  sources(): readonly KvSourceStatus[];
  /** Resolved once what a file of the last run says is in the index. */
  readonly ready: Promise<void>;
  /** Changes kept for watchers that were cut. Default 64 MiB; as much as the index more while a snapshot is on its way. */
  readonly logBytes?: number;
  /** How long changes are kept on after the last watcher left. Default 60 s. */
  readonly retainMs?: number;
}

const LOG_BYTES = 64 * 1024 * 1024;
const RETAIN_MS = 60_000;
/** A watcher that takes nothing for so long counts as standing still. */
const STALLED_MS = 10_000;
/** Changes in one message. */
const MESSAGE_BYTES = 256 * 1024;
/** What a change weighs besides its bytes. */
const DELTA_OVERHEAD = 200;

/**
 * Lets others keep a copy of the index: a snapshot in slices, then each change in its order. Changes are written down once, in one
 * bounded log that all watchers read at their own speed; one that is slower than the log is long is cut, and begins anew. Without
 * watchers nothing is written down.
 */
export class WatchHub {
  readonly #o: WatchHubOptions;
  readonly #log: WatchLog;
  readonly #watchers = new Set<Watcher>();
  readonly #known = new Map<WorkerId, string>();
  /** Index clock → version. */
  readonly #marks = new VersionMarks();
  /** Watchers that take a snapshot, with the index's size when they began. */
  readonly #snapshots = new Map<Watcher, number>();
  #sourcesVersion = 1;
  #stopListening: (() => void) | undefined;
  #cancelRetain = (): void => {};

  constructor(options: WatchHubOptions) {
    this.#o = options;
    const base = options.logBytes ?? LOG_BYTES;
    this.#log = new WatchLog(() => (this.#snapshots.size === 0 ? base : base + this.#extraBytes()));
  }

  /** Grows when something of the sources can be seen to have changed. */
  get sourcesVersion(): number {
    return this.#sourcesVersion;
  }

  /** Version of the last change that was written down. */
  get version(): number {
    return this.#log.version;
  }

  /** Bytes of changes that are kept. */
  get logBytes(): number {
    return this.#log.bytes;
  }

  /** Something of the sources changed, perhaps how a worker is known. */
  changed(): void {
    this.#sourcesVersion++;
    if (this.#stopListening !== undefined) {
      for (const [id, worker] of this.#o.workers) {
        const { knownBy, alignTokens } = worker;
        const now = `${knownBy}/${alignTokens}`;
        if (this.#known.get(id) === now || !this.#known.has(id)) continue;
        this.#known.set(id, now);
        this.#append({ worker: id, type: "knowledge", knownBy, alignTokens }, 0);
      }
    }
    this.#wake();
  }

  /** A worker is followed from now on. */
  followed(worker: WatchableWorker): void {
    if (this.#stopListening === undefined) return;
    this.#remember(worker);
    this.#append({ worker: worker.info.id, type: "followed", as: this.#watched(worker) }, 1_000);
  }

  /** What was sent to a worker that is known by history, or what came of it. */
  note(note: KvNote): void {
    if (this.#stopListening === undefined) return;
    const bytes =
      note.type === "observed"
        ? note.outcome.prompt.length + (note.outcome.answer?.length ?? 0)
        : note.query.prompt.length;
    this.#append({ worker: note.worker, type: "note", note }, bytes);
  }

  watchers(): readonly KvWatcher[] {
    const now = this.#o.clock.now();
    return [...this.#watchers].map(({ name, state, cursor, sinceMs }) => ({
      name,
      state,
      behindBytes: this.#log.behind(cursor.version),
      connectedMs: now - sinceMs,
    }));
  }

  /** @throws CgnError OVERLOADED when the watcher takes its messages too slowly */
  async *watch(ask: WatchAsk, signal: AbortSignal): AsyncGenerator<WatchMessage<EncodedDelta>> {
    const watcher = new Watcher(ask.watcher, this.#o.clock, signal);
    if (!ask.sourcesOnly) this.#listen();
    this.#watchers.add(watcher);
    try {
      yield* this.#untilReady(watcher);
      if (!ask.sourcesOnly) yield* this.#begin(ask, watcher);
      watcher.state = "live";
      while (!signal.aborted) {
        const message = this.#next(watcher, ask.sourcesOnly);
        if (message !== undefined) yield message;
        else await watcher.wait(this.#sourcesVersion);
      }
    } finally {
      this.#watchers.delete(watcher);
      watcher.close();
      this.#leave();
    }
  }

  /** While a file of the last run is read: a copy that began now would be emptier than the one that its owner has. */
  async *#untilReady(watcher: Watcher): AsyncGenerator<WatchMessage<EncodedDelta>> {
    let ready = false;
    void this.#o.ready.then(() => {
      ready = true;
      watcher.wake();
    });
    await Promise.resolve();
    while (!ready && !watcher.signal.aborted) {
      if (watcher.beatIsDue()) yield { instance: "", version: 0 };
      else await watcher.wait(this.#sourcesVersion);
    }
  }

  async *#begin({ from }: WatchAsk, watcher: Watcher): AsyncGenerator<WatchMessage<EncodedDelta>> {
    if (from?.instance === this.#o.instance && this.#log.reaches(from.version)) {
      watcher.cursor.version = from.version;
      return;
    }
    this.#snapshots.set(watcher, this.#o.index.index.stats().bytes);
    try {
      yield* this.#snapshot(watcher);
    } finally {
      this.#snapshots.delete(watcher);
    }
  }

  /** Room for what changes while snapshots are on their way; not for watchers that stand still. */
  #extraBytes(): number {
    let extra = 0;
    for (const [watcher, bytes] of this.#snapshots) if (watcher.quietMs < STALLED_MS) extra = Math.max(extra, bytes);
    return extra;
  }

  /**
   * All that is held, and what changed meanwhile. Chunks of the index may be made while it changes: the changes since the
   * beginning over them give the same. Of a worker with history all is told in one step, because notes must not count twice.
   */
  async *#snapshot(watcher: Watcher): AsyncGenerator<WatchMessage<EncodedDelta>> {
    const { index, instance, workers } = this.#o;
    const version = this.#log.version;
    watcher.cursor.version = version;
    yield { instance, version, part: { type: "begin", seed: index.index.seed } };
    for (const worker of [...workers.values()]) {
      const id = worker.info.id;
      // It was dropped meanwhile, or is another one: the changes tell it.
      if (workers.get(id) !== worker) continue;
      const chunks = index.index.save(worker.slot);
      const first: WatchMessage<EncodedDelta> = {
        instance,
        version,
        part: { type: "worker", worker: this.#watched(worker) },
      };
      const whole = worker.knownBy === "history" ? [...chunks] : chunks;
      yield first;
      for (const data of whole) {
        watcher.sent();
        yield { instance, version, part: { type: "chunk", worker: id, data } };
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const to = this.#log.version;
    while (watcher.cursor.version < to) yield this.#deltas(watcher);
    yield { instance, version: watcher.cursor.version, part: { type: "end" } };
  }

  #next(watcher: Watcher, sourcesOnly: boolean): WatchMessage<EncodedDelta> | undefined {
    const fresh = watcher.sourcesAreDue(this.#sourcesVersion);
    const sources = fresh ? { sources: this.#o.sources() } : {};
    const { instance } = this.#o;
    if (sourcesOnly) {
      return fresh || watcher.beatIsDue() ? { instance, version: this.#sourcesVersion, ...sources } : undefined;
    }
    if (watcher.cursor.version < this.#log.version) return { ...this.#deltas(watcher), ...sources };
    return fresh || watcher.beatIsDue() ? { instance, version: watcher.cursor.version, ...sources } : undefined;
  }

  #deltas(watcher: Watcher): WatchMessage<EncodedDelta> {
    const deltas = this.#log.take(watcher.cursor, MESSAGE_BYTES);
    if (deltas === undefined) {
      const message =
        "Cannot go on with the watch: the watcher is too slow, changes that it has not taken are forgotten. Watch again";
      throw new CgnError("OVERLOADED", message, { retryAfterS: 1 });
    }
    watcher.sent();
    return { instance: this.#o.instance, version: watcher.cursor.version, part: { type: "deltas", deltas } };
  }

  #listen(): void {
    this.#cancelRetain();
    if (this.#stopListening !== undefined) return;
    this.#stopListening = this.#o.index.onApplied((worker, change) => this.#applied(worker, change));
    for (const worker of this.#o.workers.values()) this.#remember(worker);
  }

  #leave(): void {
    if (this.#watchers.size > 0 || this.#stopListening === undefined) return;
    this.#cancelRetain = this.#o.clock.after(this.#o.retainMs ?? RETAIN_MS, () => this.close());
  }

  /** Write nothing down any more. */
  close(): void {
    this.#cancelRetain();
    this.#stopListening?.();
    this.#stopListening = undefined;
    this.#log.reset();
    this.#known.clear();
  }

  #remember({ info, knownBy, alignTokens }: WatchableWorker): void {
    this.#known.set(info.id, `${knownBy}/${alignTokens}`);
  }

  #applied({ id }: ChangedWorker, change: AppliedChange): void {
    const delta = this.#deltaOf(id, change);
    if (delta === undefined) return;
    if (delta.type === "dropped") this.#known.delete(id);
    this.#append(
      delta,
      delta.type === "stored" ? 13 * delta.blocks.names.length + (delta.blocks.ends.at(-1) ?? 0) : 8 * sizeOf(delta),
    );
  }

  #deltaOf(worker: WorkerId, change: AppliedChange): KvDelta | undefined {
    switch (change.type) {
      case "stored":
        return { worker, type: "stored", blocks: change.blocks };
      case "removed":
      case "counted":
        return { worker, ...change };
      case "cleared":
      case "dropped":
        return { worker, type: change.type };
      case "corrected": {
        // History is corrected by the notes, which its copies hear too.
        if (this.#o.workers.get(worker)?.knownBy === "history") return undefined;
        const since = change.since === undefined ? this.#log.version : this.#marks.at(change.since);
        return { worker, type: "corrected", root: change.root, prompt: change.prompt, tokens: change.tokens, since };
      }
      default:
        return undefined;
    }
  }

  #append(delta: KvDelta, bytes: number): void {
    this.#log.append(deltaToMessage(delta), bytes + DELTA_OVERHEAD);
    this.#marks.note(this.#o.index.index.clock, this.#log.version, this.#o.clock.now());
    this.#wake();
  }

  #wake(): void {
    for (const watcher of this.#watchers) watcher.wake();
  }

  #watched(worker: WatchableWorker): WatchedWorker {
    const history = worker.historyState();
    const { info, knownBy, alignTokens, historyEntries } = worker;
    const state = history === undefined ? {} : { history };
    return { info, knownBy, alignTokens, historyEntries, historyVersion: this.#log.version, ...state };
  }
}

function sizeOf(delta: KvDelta): number {
  if ("names" in delta) return delta.names.length;
  return "prompt" in delta ? delta.prompt.length / 8 : 0;
}
