import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import { AREA, Core, ORPHANS, ROOM } from "./core.ts";
import { CoreArguments } from "./core-arguments.ts";
import type { History } from "./history.ts";
import { createHistory, ENTRY_OVERHEAD } from "./history-tree.ts";
import { MemoryCap } from "./memory-cap.ts";
import type {
  BlockNames,
  IndexStats,
  PrefixIndex,
  PrefixIndexOptions,
  PrefixMatch,
  RecordedPrompt,
  StoredBlocks,
  WorkerOptions,
  WorkerSlot,
} from "./prefix-index.ts";
import { RootTable } from "./root-table.ts";
import { Snapshots } from "./snapshots.ts";
import { TIERS, tierRank } from "./tiers.ts";
import { type WorkerState, WorkerTable } from "./worker-table.ts";

const ALL_TIERS = 15;
/** Stamps in memory have 31 bits: they wrap after weeks. */
const STAMP_MASK = 0x7fffffff;

/** Blocks whose hashes the caller has: 64 bits each, of whatever their equality stands for. */
export interface HashedBlocks extends Omit<StoredBlocks, "bytes" | "ends"> {
  readonly hashes: BigUint64Array;
}

/** The run index, which can also be asked by hashes of blocks, as indexes of token ids are. */
export interface RunPrefixIndex extends PrefixIndex {
  storeHashed(slot: WorkerSlot, blocks: HashedBlocks): boolean;
  /** As `match()`, for a prompt of so many whole blocks; all of them may count. The answers say 0 bytes. */
  matchHashed(root: string, hashes: BigUint64Array, out?: PrefixMatch[]): PrefixMatch[];
}

/** The prefix index as a tree of runs (wasm/layout.ts) in the memory of a WebAssembly core; prompts without events beside it. */
class RunIndex implements RunPrefixIndex {
  readonly seed: number;
  readonly #core: Core;
  readonly #arguments: CoreArguments;
  readonly #roots: RootTable;
  readonly #workers = new WorkerTable();
  readonly #history: History = createHistory();
  readonly #cap: MemoryCap;
  readonly #snapshots: Snapshots;
  readonly #capBytes: number;
  #oneEnd = new Uint32Array(64);
  #clock = 0;
  #orphans = 0;
  #unknown = 0;
  #dropped = 0;
  #corrections = 0;
  #lookups = 0;
  #hits = 0;

  constructor({ capBytes, seed }: PrefixIndexOptions) {
    this.seed = seed;
    this.#capBytes = capBytes;
    this.#core = new Core(capBytes, seed);
    this.#arguments = new CoreArguments(this.#core);
    this.#roots = new RootTable(this.#core);
    this.#cap = new MemoryCap(this.#core, this.#roots, this.#history, capBytes);
    this.#snapshots = new Snapshots(this.#core, this.#arguments, this.#roots, this.#history);
  }

  get clock(): number {
    return this.#clock;
  }

  get #stamp(): number {
    return this.#clock & STAMP_MASK;
  }

  addWorker(id: WorkerId, options: WorkerOptions = {}): WorkerSlot {
    const worker = this.#workers.add(id, options);
    worker.core = this.#core.calls.newWorker(worker.index);
    this.#history.add(worker.slot, worker.historyEntries);
    return worker.slot;
  }

  dropWorker(slot: WorkerSlot): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    this.#snapshots.finish(worker);
    if (worker.core !== 0) this.#core.calls.dropWorker(worker.core);
    this.#workers.drop(worker);
    this.#history.drop(slot);
  }

  clearWorker(slot: WorkerSlot): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    this.#snapshots.finish(worker);
    if (worker.core !== 0) this.#core.calls.emptyWorker(worker.core);
    this.#history.clear(slot);
  }

  workerOf(slot: WorkerSlot): WorkerId | undefined {
    return this.#workers.get(slot)?.id;
  }

  blocksOf(slot: WorkerSlot): number {
    const core = this.#workers.get(slot)?.core ?? 0;
    return core === 0 ? 0 : this.#core.calls.namesOf(core);
  }

  store(slot: WorkerSlot, blocks: StoredBlocks): boolean {
    const count = Math.min(blocks.names.length, blocks.ends.length);
    checkEnds(blocks, count);
    return this.#store(slot, blocks, count, false, () => {
      return this.#arguments.putEnds(blocks.ends, count) && this.#arguments.putBytes(blocks.bytes);
    });
  }

  storeHashed(slot: WorkerSlot, blocks: HashedBlocks): boolean {
    const count = Math.min(blocks.names.length, blocks.hashes.length);
    return this.#store(slot, blocks, count, true, () => {
      return this.#arguments.putEnds(this.#unitEnds(count), count) && this.#arguments.putHashes(blocks.hashes);
    });
  }

  /** Ends of blocks of one byte each. */
  #unitEnds(count: number): Uint32Array {
    if (this.#oneEnd[0] === 0 || this.#oneEnd.length < count) {
      this.#oneEnd = Uint32Array.from({ length: Math.max(64, 2 * count) }, (_, i) => i + 1);
    }
    return this.#oneEnd;
  }

  #store(
    slot: WorkerSlot,
    blocks: Omit<StoredBlocks, "bytes" | "ends">,
    count: number,
    isHashed: boolean,
    put: () => boolean,
  ): boolean {
    const worker = this.#workers.get(slot);
    const placed = worker === undefined ? ORPHANS : this.#place(worker, blocks, count, isHashed, put);
    if (worker === undefined || placed < 0) {
      this.#orphans += blocks.names.length;
      return false;
    }
    this.#clock++;
    worker.blockTokens = blocks.blockTokens;
    if (placed < count) this.#dropped += count - placed;
    return true;
  }

  /** How many blocks were placed, or ORPHANS. */
  #place(
    worker: WorkerState,
    { names, parent, root, tier }: Omit<StoredBlocks, "bytes" | "ends">,
    count: number,
    isHashed: boolean,
    put: () => boolean,
  ): number {
    worker.core ||= this.#core.calls.newWorker(worker.index);
    if (worker.core === 0 || !this.#arguments.putNames(names, parent) || !put()) return 0;
    const stamp = (this.#clock + 1) & STAMP_MASK;
    const store = (): number => {
      const rootNumber = parent === undefined && count > 0 ? this.#roots.ensure(root) : 0;
      if (rootNumber < 0) return 0;
      const { storeBlocks } = this.#core.calls;
      return storeBlocks(worker.core, parent !== undefined, rootNumber, count, tierRank(tier), isHashed, stamp);
    };
    const placed = store();
    if (placed !== ROOM) return placed;
    const mayStore = this.#cap.makeRoom(this.#core.calls.needOf(count));
    return mayStore ? Math.max(store(), ORPHANS) : 0;
  }

  remove(slot: WorkerSlot, names: BlockNames, tier?: Tier): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    if (worker.core === 0 || !this.#arguments.putNames(names, undefined)) this.#unknown += names.length;
    else {
      const tiers = tier === undefined ? ALL_TIERS : 1 << tierRank(tier);
      this.#unknown += this.#core.calls.removeBlocks(worker.core, names.length, tiers);
    }
  }

  setCounted(slot: WorkerSlot, names: BlockNames, counted: boolean): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined || worker.core === 0 || !this.#arguments.putNames(names, undefined)) return;
    this.#core.calls.markBlocks(worker.core, names.length, counted, this.#stamp);
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt): void {
    if (this.#workers.get(slot) === undefined) return;
    this.#clock++;
    this.#core.calls.tick(1);
    if (this.#cap.makeRoom(prompt.bytes.length + ENTRY_OVERHEAD)) this.#history.record(slot, prompt, this.#clock);
  }

  match(root: string, prompt: Uint8Array, out: PrefixMatch[] = []): PrefixMatch[] {
    this.#lookups++;
    const number = this.#roots.find(root);
    const found =
      number >= 0 && this.#arguments.putBytes(prompt)
        ? this.#core.calls.matchPrompt(number, prompt.length, this.#stamp)
        : 0;
    let count = this.#readAnswers(found, out);
    if (this.#history.size > 0) {
      this.#history.match(root, prompt, (slot, bytes, tokens) => {
        const entry = (out[count++] ??= { ...NO_MATCH });
        fill(entry, this.#workers.get(slot)!, "history", 0, tokens, bytes, 0);
      });
    }
    out.length = count;
    if (count > 0) this.#hits++;
    return out;
  }

  matchHashed(root: string, hashes: BigUint64Array, out: PrefixMatch[] = []): PrefixMatch[] {
    this.#lookups++;
    const number = this.#roots.find(root);
    const found =
      number >= 0 && this.#arguments.putHashes(hashes)
        ? this.#core.calls.matchHashed(number, hashes.length, this.#stamp)
        : 0;
    out.length = this.#readAnswers(found, out);
    if (found > 0) this.#hits++;
    return out;
  }

  #readAnswers(found: number, out: PrefixMatch[]): number {
    if (found === 0) return 0;
    let at = this.#core.area(AREA.answers, 16 * found) / 4;
    const { words } = this.#core;
    for (let i = 0; i < found; i++, at += 4) {
      const worker = this.#workers.at(words[at]!)!;
      const blocks = words[at + 1]!;
      const entry = (out[i] ??= { ...NO_MATCH });
      fill(entry, worker, "events", blocks, blocks * worker.blockTokens, words[at + 2]!, words[at + 3]!);
    }
    return found;
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since = Infinity): boolean {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return false;
    let changed = this.#history.correct(slot, root, prompt, reportedTokens, since);
    const keep = worker.blockTokens > 0 ? Math.floor(reportedTokens / worker.blockTokens) : 0;
    const number = this.#roots.find(root);
    if (number >= 0 && worker.core !== 0 && this.#arguments.putBytes(prompt)) {
      const newest = Math.min(since, STAMP_MASK);
      const { hide } = this.#core.calls;
      if (hide(number, prompt.length, worker.core, Math.max(keep, 0), newest, this.#stamp) !== 0) changed = true;
    }
    if (changed) this.#corrections++;
    return changed;
  }

  save(slot: WorkerSlot): Iterable<Uint8Array> {
    const worker = this.#workers.get(slot);
    return worker === undefined ? [] : this.#snapshots.save(worker);
  }

  load(slot: WorkerSlot, chunk: Uint8Array): boolean {
    const worker = this.#workers.get(slot);
    const loaded = worker === undefined ? undefined : this.#snapshots.read(chunk);
    if (worker === undefined || loaded === undefined) return false;
    this.#clock++;
    if (loaded.blockTokens > 0) worker.blockTokens = loaded.blockTokens;
    worker.core ||= this.#core.calls.newWorker(worker.index);
    if (worker.core === 0 || !this.#cap.makeRoom(chunk.length + this.#core.calls.needOf(loaded.blocks)))
      this.#dropped += loaded.blocks;
    else {
      const { orphans, dropped } = this.#snapshots.place(worker, chunk, loaded, this.#stamp);
      this.#orphans += orphans;
      this.#dropped += dropped;
    }
    return true;
  }

  stats(): IndexStats {
    const { calls } = this.#core;
    const cores = [...this.#workers.all()].map((worker) => worker.core).filter((core) => core !== 0);
    const sum = (of: (core: number) => number) => cores.reduce((total, core) => total + of(core), 0);
    const inTier = (tier: Tier) => sum((core) => calls.namesInTier(core, tierRank(tier)));
    return {
      workers: this.#workers.count,
      runs: calls.runCount(),
      blocks: sum(calls.namesOf),
      blocksByTier: { device: inTier("device"), host: inTier("host"), disk: inTier("disk"), shared: inTier("shared") },
      uncountedBlocks: sum(calls.uncountedOf),
      bytes: this.#cap.usedBytes(),
      capBytes: this.#capBytes,
      historyEntries: this.#history.size,
      orphanBlocks: this.#orphans,
      unknownRemovals: this.#unknown,
      evictedBlocks: this.#dropped + this.#cap.evictedBlocks,
      corrections: this.#corrections,
      lookups: this.#lookups,
      hits: this.#hits,
    };
  }
}

const NO_MATCH: PrefixMatch = {
  slot: 0,
  worker: "" as WorkerId,
  blocks: 0,
  tokens: 0,
  bytes: 0,
  tier: "device",
  source: "events",
};

function fill(
  entry: PrefixMatch,
  worker: WorkerState,
  source: PrefixMatch["source"],
  blocks: number,
  tokens: number,
  bytes: number,
  tier: number,
): void {
  entry.slot = worker.slot;
  entry.worker = worker.id;
  entry.blocks = blocks;
  entry.tokens = tokens;
  entry.bytes = bytes;
  entry.tier = TIERS[tier]!;
  entry.source = source;
}

function checkEnds({ bytes, ends }: StoredBlocks, count: number): void {
  let before = 0;
  for (let i = 0; i < count; i++) {
    const end = ends[i]!;
    if (end < before || end > bytes.length) {
      throw new RangeError(
        `Cannot store blocks: block ${i} ends at byte ${end}. It must end in ${before}..${bytes.length}`,
      );
    }
    before = end;
  }
}

/** Make an empty index. */
export function createPrefixIndex(options: PrefixIndexOptions): RunPrefixIndex {
  return new RunIndex(options);
}
