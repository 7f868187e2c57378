import { readdir, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { KvSnapshotStatus } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { FolderLock, type Holder } from "./folder-lock.ts";
import type { Kvcached, ResumableWorker } from "./service.ts";
import { decodeWorker, KIND } from "./snapshot-format.ts";
import { checkSnapshot, readSnapshot, type SnapshotFinding } from "./snapshot-read.ts";
import { writeSnapshot } from "./snapshot-write.ts";

export interface SnapshotKeeperOptions {
  readonly dir: string;
  /** Time between two; 0: none is written but the last. */
  readonly everyMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** This run of kvcached. */
  readonly instance: string;
}

const FILE = "prefix-index.snapshot";
const LOCK = "kvcached.lock";
/** Damaged files that are kept to be looked at. */
const KEEP_DAMAGED = 3;
/** Writing may take at most this share of the time. */
const MAX_SHARE = 0.05;
/** Whoever is not registered again within this is not followed any more. */
const CLAIM_MS = 60_000;
/** Watchers do not wait longer for engines to prove what was restored. */
const PROVE_MS = 5_000;

/**
 * Keeps what the index holds on disk: read and checked at the start, written now and then and at the end. Nothing that the
 * disk does stops the service; it is said in the log, in `stats()` and as a metric.
 *
 * Only what events told is written, as hashes. Prompts that were sent to engines without events are content, and are not.
 */
export class SnapshotKeeper {
  readonly #o: SnapshotKeeperOptions;
  readonly #path: string;
  readonly #lock: FolderLock;
  #finding: SnapshotFinding = { is: "missing" };
  #status: Omit<KvSnapshotStatus, "ageMs" | "detail">;
  /** When the file was last known to say what the index holds. */
  #currentWall: number | undefined;
  #writtenMark = "";
  #service: Kvcached | undefined;
  #cancel = (): void => {};
  #writing: Promise<void> = Promise.resolve();
  /** Why the last one could not be written. */
  #failing = "";
  /** What became of the file of the last run, where that is worth a word. */
  #found = "";
  #closed = false;
  #unsettled = 0;
  #settledAll = (): void => {};
  readonly #leaveMetrics: () => void;

  constructor(options: SnapshotKeeperOptions) {
    this.#o = options;
    this.#path = join(options.dir, FILE);
    this.#lock = new FolderLock(join(options.dir, LOCK), options);
    this.#status = { path: this.#path, state: "waiting", bytes: 0, blocks: 0, restored: 0, dropped: 0 };
    const { metrics } = options;
    this.#leaveMetrics =
      metrics?.onScrape(() => {
        const { ageMs, bytes } = this.status();
        if (ageMs !== undefined) metrics.gauge("cgn_kvcached_snapshot_age_seconds").set(ageMs / 1000);
        metrics.gauge("cgn_kvcached_snapshot_bytes").set(bytes);
      }) ?? (() => {});
  }

  status(): KvSnapshotStatus {
    const age = this.#currentWall === undefined ? {} : { ageMs: Math.max(0, this.#o.clock.wall() - this.#currentWall) };
    return { ...this.#status, ...age, detail: this.#failing === "" ? this.#found : this.#failing };
  }

  /**
   * Take the folder, and look at the file of the last run. Gives the seed that an index must have to take it in; undefined: there
   * is nothing to take.
   * @throws CgnError STORAGE_UNUSABLE: another kvcached runs and keeps its snapshot there
   */
  async open(): Promise<number | undefined> {
    const isOurs = await this.#takeFolder();
    const finding = await checkSnapshot(this.#path);
    this.#finding = finding;
    if (finding.is === "whole") {
      const { head, end, bytes } = finding;
      this.#currentWall = head.writtenAt;
      this.#status = { ...this.#status, state: "restoring", bytes, blocks: end.blocks };
      return head.seed;
    }
    // It may be another's, who is writing it.
    if (finding.is === "damaged" && isOurs) await this.#putAside(finding.why);
    else if (finding.is === "damaged") this.#say(`the snapshot is damaged (${finding.why}) and is not believed`);
    else if (finding.is === "version") {
      this.#say(
        `the snapshot is of format ${finding.version}, which this version of cgn does not read: it begins anew`,
      );
    } else if (finding.is === "unreadable") this.#say(`the snapshot cannot be read: ${finding.why}`);
    return undefined;
  }

  /**
   * Let the service know what the last run knew, in slices; then write from time to time. Resolves once the engines have proved
   * or disproved it, or have not answered for some seconds.
   */
  async start(service: Kvcached): Promise<void> {
    this.#service = service;
    if (this.#finding.is === "whole") await this.#restore(service, this.#finding.end.workers);
    if (!this.#closed) this.#schedule(this.#o.everyMs);
  }

  /** Write the last one. Call it while the sources are still followed. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    this.#leaveMetrics();
    this.#settledAll();
    await this.#writing;
    // What was not restored yet would be lost.
    if (this.#status.state !== "restoring") await this.#write();
    await this.#lock.release();
  }

  /** @returns false: who holds it cannot be looked at, or it cannot be written, which is no reason not to serve */
  async #takeFolder(): Promise<boolean> {
    let other: Holder | undefined;
    try {
      other = await this.#lock.take();
    } catch {
      // Writing will say it.
      return false;
    }
    if (other === undefined) return true;
    if (other.liveness === "runs") {
      throw new CgnError(
        "STORAGE_UNUSABLE",
        `Cannot use [kv].index_dir = "${this.#o.dir}": ${heldBy(other)}. Give each kvcached its own index_dir (and uds and listen), or end the other`,
        { key: "kv.index_dir", path: this.#o.dir },
      );
    }
    this.#say(`${heldBy(other)}: nothing is written before that one is known to be gone`);
    return false;
  }

  async #restore(service: Kvcached, workers: number): Promise<void> {
    const startMs = this.#o.clock.now();
    const settled = new Promise<void>((resolve) => {
      this.#settledAll = resolve;
    });
    this.#unsettled = 1;
    try {
      await this.#load(service);
    } catch (error) {
      // It was whole a moment ago: somebody changed it, or the disk fails.
      this.#say(`the snapshot cannot be read to its end: ${said(error)}`);
    }
    const loadedMs = this.#o.clock.now();
    this.#settleOne();
    const cancel = this.#o.clock.after(PROVE_MS, this.#settledAll);
    await settled;
    cancel();
    if (this.#status.state === "restoring") this.#status = { ...this.#status, state: "written" };
    const { restored, dropped } = this.#status;
    const times = { load_ms: Math.round(loadedMs - startMs), prove_ms: Math.round(this.#o.clock.now() - loadedMs) };
    this.#o.log.info("took in the snapshot of the last run", { workers, restored, dropped, ...times });
    const cancelClaim = this.#o.clock.after(CLAIM_MS, () => {
      const unclaimed = service.dropUnclaimed();
      if (unclaimed.length > 0)
        this.#o.log.info("dropped workers of the snapshot that nobody registered", { unclaimed });
    });
    if (this.#closed) cancelClaim();
  }

  async #load(service: Kvcached): Promise<void> {
    let into: ReturnType<Kvcached["restore"]>;
    let id = "";
    let bad = false;
    const end = () => into?.done();
    try {
      for await (const { kind, payload } of readSnapshot(this.#path)) {
        if (this.#closed) return;
        if (kind === KIND.worker) {
          end();
          const { info, resume, shape } = decodeWorker(payload);
          id = info.id;
          bad = false;
          this.#unsettled++;
          into = service.restore(info, { resume, shape }, (believed, why) => this.#settled(info.id, believed, why));
        } else if (kind === KIND.chunk && into !== undefined && !bad && !into.load(payload)) {
          bad = true;
          service.unregister(id as Parameters<Kvcached["unregister"]>[0]);
          this.#say(`what the snapshot says of ${id} cannot be taken in: it is followed anew`);
        }
        await new Promise<void>((resolve) => setImmediate(resolve));
      }
    } finally {
      end();
    }
  }

  #settled(worker: string, believed: boolean, why: string): void {
    const { restored, dropped } = this.#status;
    this.#status = believed ? { ...this.#status, restored: restored + 1 } : { ...this.#status, dropped: dropped + 1 };
    if (!believed) this.#o.log.info("dropped what the snapshot said of a worker", { worker, why });
    this.#settleOne();
  }

  #settleOne(): void {
    if (--this.#unsettled === 0) this.#settledAll();
  }

  #schedule(ms: number): void {
    if (this.#closed || this.#o.everyMs <= 0) return;
    this.#cancel = this.#o.clock.after(ms, () => {
      const start = this.#o.clock.now();
      this.#writing = this.#write().then(() => {
        this.#schedule(Math.max(this.#o.everyMs, (this.#o.clock.now() - start) / MAX_SHARE));
      });
    });
  }

  async #write(): Promise<void> {
    const service = this.#service;
    if (service === undefined) return;
    const workers = service.resumable();
    const mark = markOf(service, workers);
    const { clock, instance } = this.#o;
    if (mark === this.#writtenMark) {
      // What stands there is what would be written.
      this.#currentWall = clock.wall();
      return;
    }
    const blocks = service.index.stats().blocks;
    const writtenAt = clock.wall();
    try {
      await this.#requireOurs();
      const { bytes } = await writeSnapshot(this.#path, {
        head: { seed: service.index.seed, instance, writtenAt },
        blocks,
        workers: partsOf(service, workers),
      });
      this.#currentWall = writtenAt;
      this.#writtenMark = mark;
      this.#status = { ...this.#status, state: "written", bytes, blocks };
      if (this.#failing !== "") this.#o.log.info("snapshots of the index are written again", { path: this.#path });
      this.#failing = "";
    } catch (error) {
      this.#fail(said(error));
    }
  }

  /** Two kvcacheds with one folder would take each other's place for ever. One that came in spite of the lock writes when we are gone. */
  async #requireOurs(): Promise<void> {
    const other = await this.#lock.take();
    if (other !== undefined) throw new Error(`${heldBy(other)}. Give each its own [kv].index_dir`);
  }

  #fail(why: string): void {
    this.#o.metrics?.counter("cgn_kvcached_snapshot_failures_total", "write").inc();
    this.#status = { ...this.#status, state: "failing" };
    if (this.#failing === why) return;
    this.#failing = why;
    this.#o.log.warn("a snapshot of the index cannot be written: after a restart it is learnt anew", {
      path: this.#path,
      why,
    });
  }

  async #putAside(why: string): Promise<void> {
    const aside = `${this.#path}.damaged-${new Date(this.#o.clock.wall()).toISOString().replaceAll(":", "-")}`;
    this.#o.metrics?.counter("cgn_kvcached_snapshot_failures_total", "read").inc();
    try {
      await rename(this.#path, aside);
      this.#say(`the snapshot is damaged (${why}) and is not believed: it lies in ${basename(aside)}`);
      await this.#forgetDamaged();
    } catch (error) {
      this.#say(`the snapshot is damaged (${why}) and is not believed; it cannot be put aside: ${said(error)}`);
    }
  }

  async #forgetDamaged(): Promise<void> {
    const dir = dirname(this.#path);
    const damaged = (await readdir(dir)).filter((name) => name.startsWith(`${FILE}.damaged-`)).sort();
    for (const name of damaged.slice(0, -KEEP_DAMAGED)) await unlink(join(dir, name));
  }

  #say(detail: string): void {
    this.#found = detail;
    this.#o.log.warn(detail, { path: this.#path });
  }
}

/** Changes with what a snapshot would say. */
function markOf({ index }: Kvcached, workers: readonly ResumableWorker[]): string {
  const { blocks, uncountedBlocks } = index.stats();
  return JSON.stringify([
    index.clock,
    blocks,
    uncountedBlocks,
    workers.map(({ info, resume }) => [info.id, info.epoch, resume.next]),
  ]);
}

/** Each worker as it is when its turn comes. */
function* partsOf(service: Kvcached, workers: readonly ResumableWorker[]) {
  for (const { info } of workers) {
    const now = service.resumable().find((each) => each.info.id === info.id);
    if (now !== undefined) yield { ...now, chunks: () => service.index.save(now.slot) };
  }
}

function heldBy({ mark }: Holder): string {
  const who = mark === undefined ? "" : ` (process ${mark.pid} on ${mark.place.split(" ")[0]})`;
  return `another kvcached${who} keeps its snapshot in this folder`;
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
