import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { MatchQuery, PredictionVerdict, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { PrefixIndex, PrefixMatch } from "../kvindex/prefix-index.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import type { KvDelta, WatchedWorker } from "../wire/kv-delta.ts";
import type { KvNote } from "../wire/kv-note.ts";
import { journalBytes } from "./change-journal.ts";
import { matchWorkers } from "./match-workers.ts";
import { MirroredWorker } from "./mirrored-worker.ts";
import { VersionMarks } from "./version-marks.ts";

export interface MirrorCopyOptions {
  readonly instance: string;
  readonly seed: number;
  readonly capBytes: number;
  readonly clock: Clock;
  /** The watcher's name: notes of this name are echoes of our own. */
  readonly watcher: string;
  /** Number of the last note of our own. */
  ownNotes(): number;
  /** A copy that this one takes the place of, and may inherit from; undefined: what kvcached says counts. */
  readonly older: MirrorCopy | undefined;
}

/** A copy of what one run of one kvcached knows, kept by its watch. */
export class MirrorCopy {
  readonly instance: string;
  readonly index: PrefixIndex;
  readonly workers = new Map<WorkerId, MirroredWorker>();
  /** Changes up to here are in it. */
  version = 0;
  readonly #o: MirrorCopyOptions;
  /** Version → clock of our index. */
  readonly #marks = new VersionMarks();
  readonly #inherited = new Set<WorkerId>();
  readonly #found: PrefixMatch[] = [];
  /** When each query was matched, for what is sent by it. */
  readonly #matched = new WeakMap<MatchQuery, number>();
  readonly #journalBytes = () => journalBytes(this.workers.size);

  constructor(options: MirrorCopyOptions) {
    this.#o = options;
    this.instance = options.instance;
    this.index = createPrefixIndex({ capBytes: options.capBytes, seed: options.seed });
  }

  add(watched: WatchedWorker): void {
    const { id } = watched.info;
    this.#drop(id);
    const worker = new MirroredWorker(watched, this.index, this.#o.ownNotes(), this.#o.clock, this.#journalBytes);
    this.workers.set(id, worker);
    const older = this.#o.older?.workers.get(id);
    if (older !== undefined && worker.inherit(older, this.#o.older!.index)) this.#inherited.add(id);
  }

  /** Part of a snapshot. @throws Error when it cannot be read: nothing can be built on the rest then */
  load(id: WorkerId, data: Uint8Array): void {
    const worker = this.workers.get(id);
    if (worker === undefined || this.#inherited.has(id)) return;
    if (!this.index.load(worker.slot, data))
      throw new Error("its snapshot cannot be read: is it of another version of cgn?");
  }

  /** Apply changes; the last one has this version. */
  apply(deltas: readonly KvDelta[], version: number): void {
    for (const [i, delta] of deltas.entries()) this.#apply(delta, version - (deltas.length - 1 - i));
    this.reached(version);
  }

  /** All changes up to this version are in it. */
  reached(version: number): void {
    this.version = version;
    this.#marks.note(version, this.index.clock, this.#o.clock.now());
  }

  /** It is not used any more. */
  close(): void {
    for (const worker of this.workers.values()) worker.close();
  }

  match(query: MatchQuery): WorkerMatch[] {
    this.#matched.set(query, this.#o.clock.now());
    return matchWorkers(query, this.workers, this.index.match(query.root, query.prompt, this.#found));
  }

  /** Something that this process did: it counts at once. */
  hear(note: KvNote, judged?: (verdict: PredictionVerdict) => void): void {
    const worker = this.workers.get(note.worker);
    if (worker === undefined) return;
    if (note.type === "observed") worker.observe(note.outcome, judged);
    else if (note.type === "unsent") worker.unsent(note.query.root, note.query.prompt);
    else worker.sent(note.query.root, note.query.prompt, this.#matched.get(note.query));
  }

  #apply(delta: KvDelta, version: number): void {
    if (delta.type === "followed") {
      this.#inherited.delete(delta.worker);
      this.add(delta.as);
      return;
    }
    const worker = this.workers.get(delta.worker);
    if (worker === undefined) return;
    const { index } = this;
    switch (delta.type) {
      case "stored":
        index.store(worker.slot, delta.blocks);
        worker.heard(delta);
        break;
      case "removed":
        index.remove(worker.slot, delta.names, delta.tier);
        worker.heard(delta);
        break;
      case "counted":
        index.setCounted(worker.slot, delta.names, delta.counted);
        worker.heard(delta);
        break;
      case "corrected":
        index.correct(worker.slot, delta.root, delta.prompt, delta.tokens, this.#marks.at(delta.since));
        break;
      case "cleared":
        worker.clear();
        break;
      case "dropped":
        this.#drop(delta.worker);
        break;
      case "knowledge":
        worker.learn(delta);
        break;
      case "note":
        this.#echo(worker, delta.note, version);
        break;
    }
  }

  /** A note that kvcached heard: ours counted already, unless it was on its way when this copy was made. */
  #echo(worker: MirroredWorker, note: KvNote, version: number): void {
    if (version <= worker.historyVersion) return;
    const isOurs = note.origin?.watcher === this.#o.watcher;
    if (isOurs && note.origin.note > worker.ownNote) return;
    this.hear(note);
  }

  #drop(id: WorkerId): void {
    const worker = this.workers.get(id);
    if (worker === undefined) return;
    worker.close();
    this.index.dropWorker(worker.slot);
    this.workers.delete(id);
  }
}
