import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { PredictionVerdict } from "../core/prefix-knowledge.ts";
import type { KvClient } from "../wire/kv-client.ts";
import type { KvDelta } from "../wire/kv-delta.ts";
import type { KvNote } from "../wire/kv-note.ts";
import type { WatchMessage } from "../wire/watch-message.ts";
import { MirrorCopy } from "./mirror-copy.ts";
import { NoteQueue } from "./note-queue.ts";

/** How the copy of one kvcached's index is. */
export interface MirrorStatus {
  /** Its address. */
  readonly kvcached: string;
  /** `connecting`: never reached so far; `snapshot`: reached, the copy is being built; `lost`: routing goes on with an older copy. */
  readonly state: "connecting" | "snapshot" | "live" | "lost";
  /** Why it is not live; "" when it is. */
  readonly reason: string;
  /** How old the knowledge is: milliseconds since kvcached was last heard; undefined when there is none. */
  readonly ageMs: number | undefined;
  readonly instance: string;
  readonly version: number;
  readonly workers: number;
  readonly blocks: number;
  readonly bytes: number;
  /** Copies built anew, and watches that went on where they had been cut. */
  readonly snapshots: number;
  readonly resumed: number;
  readonly notesWaiting: number;
  readonly notesDropped: number;
}

export interface MirrorLinkOptions {
  readonly client: Pick<KvClient, "watch" | "tell" | "name">;
  readonly clock: Clock;
  readonly log: Log;
  /** Of a copy that begins now, in bytes. */
  readonly capBytes: () => number;
  /** Name of this watcher, unique. */
  readonly watcher: string;
  ownNotes(): number;
}

/** A stream that says nothing for so long is dead: kvcached speaks each second. */
const SILENT_MS = 3_000;
/** A new one must say something within this. */
const FIRST_MS = 1_500;
const RETRY_MS = 100;
const RETRY_MAX_MS = 1_000;
/** After so long what kvcached says of engines without events counts more than what was heard here. */
const INHERIT_MS = 120_000;
/** Work done before the event loop gets its turn: requests wait for it. */
const SLICE_MS = 5;

/** Keeps a copy of what one kvcached knows, for ever: it is watched, and watched again after a cut. */
export class MirrorLink {
  readonly queue: NoteQueue;
  /** Workers that were seen to be restarted while kvcached was not there to notice it. */
  readonly restarted = new Set<WorkerId>();
  readonly #o: MirrorLinkOptions;
  readonly #ended = new AbortController();
  #current: MirrorCopy | undefined;
  /** A snapshot that is not whole yet. */
  #building: MirrorCopy | undefined;
  #sources: readonly KvSourceStatus[] = [];
  #state: MirrorStatus["state"] = "connecting";
  #reason = "not reached yet";
  #heardMs: number | undefined;
  #lostMs: number | undefined;
  #snapshots = 0;
  #resumed = 0;
  #sliceMs: number;

  constructor(options: MirrorLinkOptions) {
    this.#o = options;
    this.#sliceMs = options.clock.now();
    this.queue = new NoteQueue((notes) => options.client.tell(notes));
  }

  /** What is known; undefined before the first snapshot is whole. */
  get copy(): MirrorCopy | undefined {
    return this.#current;
  }

  get isLive(): boolean {
    return this.#state === "live";
  }

  get sources(): readonly KvSourceStatus[] {
    return this.#sources;
  }

  start(): void {
    void this.#run();
  }

  close(): void {
    this.#ended.abort();
    this.#current?.close();
  }

  /** Something that this process did. */
  hear(note: KvNote, judged?: (verdict: PredictionVerdict) => void): void {
    this.#current?.hear(note, judged);
    this.#building?.hear(note);
  }

  status(): MirrorStatus {
    const copy = this.#current;
    const stats = copy?.index.stats();
    return {
      kvcached: this.#o.client.name,
      state: this.#state,
      reason: this.#reason,
      ageMs: copy === undefined || this.#heardMs === undefined ? undefined : this.#o.clock.now() - this.#heardMs,
      instance: copy?.instance ?? "",
      version: copy?.version ?? 0,
      workers: copy?.workers.size ?? 0,
      blocks: stats?.blocks ?? 0,
      bytes: stats?.bytes ?? 0,
      snapshots: this.#snapshots,
      resumed: this.#resumed,
      notesWaiting: this.queue.size,
      notesDropped: this.queue.dropped,
    };
  }

  async #run(): Promise<void> {
    for (let attempt = 0; !this.#ended.signal.aborted; attempt++) {
      const before = this.#heardMs;
      try {
        await this.#follow();
        this.#lost("the connection ended");
      } catch (error) {
        this.#lost(error instanceof Error ? error.message : String(error));
      }
      if (this.#heardMs !== before) attempt = 0;
      if (this.#ended.signal.aborted) return;
      const pause = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(attempt, 10));
      await new Promise<void>((resolve) => {
        const cancel = this.#o.clock.after(pause, resolve);
        const end = () => {
          cancel();
          resolve();
        };
        this.#ended.signal.addEventListener("abort", end, { once: true });
      });
    }
  }

  /** One watch, to its end. */
  async #follow(): Promise<void> {
    const stop = new AbortController();
    const end = () => stop.abort();
    this.#ended.signal.addEventListener("abort", end);
    let silent = false;
    let cancel = (): void => {};
    const watchdog = (ms: number) => {
      cancel();
      cancel = this.#o.clock.after(ms, () => {
        silent = true;
        stop.abort();
      });
    };
    watchdog(FIRST_MS);
    const copy = this.#current;
    const from = copy === undefined ? {} : { from: { instance: copy.instance, version: copy.version } };
    try {
      for await (const message of this.#o.client.watch(
        { watcher: this.#o.watcher, sourcesOnly: false, ...from },
        stop.signal,
      )) {
        watchdog(SILENT_MS);
        this.#take(message);
        await this.#breathe();
      }
    } catch (error) {
      if (silent) throw new Error("no word from it any more");
      throw error;
    } finally {
      cancel();
      this.#ended.signal.removeEventListener("abort", end);
      this.#building = undefined;
    }
  }

  #take(message: WatchMessage<KvDelta>): void {
    this.#heardMs = this.#o.clock.now();
    if (message.sources !== undefined) this.#sources = message.sources;
    const { part, version, instance } = message;
    if (part?.type === "begin") {
      this.#building = this.#begin(instance, part.seed);
      if (this.#current === undefined) this.#state = "snapshot";
      return;
    }
    const copy = this.#building ?? this.#current;
    // It says that it lives and has nothing to tell yet.
    if (copy === undefined || instance === "") return;
    if (copy.instance !== instance) throw new Error("it went on with what is not known here");
    if (part?.type === "worker") copy.add(part.worker);
    else if (part?.type === "chunk") copy.load(part.worker, part.data);
    else if (part?.type === "deltas") copy.apply(part.deltas, version);
    else if (part?.type === "end") {
      copy.reached(version);
      this.#snapshots++;
      this.#current?.close();
      this.#current = copy;
      this.#building = undefined;
      this.#live("its index was copied anew");
    }
    if (this.#building === undefined && this.#state !== "live") {
      this.#resumed++;
      this.#live("the watch went on where it was cut");
    }
  }

  #begin(instance: string, seed: number): MirrorCopy {
    const { capBytes, clock, watcher, ownNotes } = this.#o;
    const current = this.#current;
    // The same run knows all that we told it. A new one was told nothing of what came before it.
    const isNew = current !== undefined && current.instance !== instance;
    const recent = clock.now() - (this.#lostMs ?? clock.now()) < INHERIT_MS;
    const older = isNew && recent ? current : undefined;
    return new MirrorCopy({ instance, seed, capBytes: capBytes(), clock, watcher, ownNotes, older });
  }

  #live(how: string): void {
    const { log, client, clock } = this.#o;
    const awayMs = this.#lostMs === undefined ? undefined : Math.round(clock.now() - this.#lostMs);
    this.#state = "live";
    this.restarted.clear();
    this.#reason = "";
    this.#lostMs = undefined;
    this.queue.opened(this.#current?.instance ?? "");
    log.info("kvcached is there: prefixes are matched in a copy of its index", {
      kvcached: client.name,
      how,
      ...(awayMs === undefined ? {} : { away_ms: awayMs }),
    });
  }

  #lost(reason: string): void {
    if (this.#ended.signal.aborted) return;
    this.queue.closed();
    this.#reason = reason;
    if (this.#state === "lost") return;
    const { log, client, clock } = this.#o;
    const kvcached = client.name;
    if (this.#current !== undefined) {
      this.#state = "lost";
      this.#lostMs = clock.now();
      log.warn("kvcached is gone: routing goes on with what was known of prefixes", { kvcached, reason });
    } else {
      this.#state = "connecting";
      log
        .once(`kv/mirror/${kvcached}`)
        .warn("no kvcached yet: requests are routed by load alone", { kvcached, reason });
    }
  }

  async #breathe(): Promise<void> {
    if (this.#o.clock.now() - this.#sliceMs < SLICE_MS) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#sliceMs = this.#o.clock.now();
  }
}
