import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import { type BlockHash, createBlockHash, hashKeys } from "./block-hash.ts";
import { Heap, UNIT_BYTES } from "./heap.ts";
import type { History } from "./history.ts";
import { createHistory, ENTRY_OVERHEAD } from "./history-tree.ts";
import { NameWords } from "./name-words.ts";
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
import { Reclaimer } from "./reclaim.ts";
import { appendBlocks } from "./run-append.ts";
import { hideBlocks, holdBlocks, releaseBlock } from "./run-holds.ts";
import { PLACE_MASK, RUN, TIER_SHIFT } from "./run-layout.ts";
import { Matcher } from "./run-match.ts";
import { RunTree } from "./run-tree.ts";
import { Scratch } from "./scratch.ts";
import { SpareNames } from "./spare-names.ts";
import { TIERS, tierRank } from "./tiers.ts";
import { type WorkerState, WorkerTable } from "./worker-table.ts";

const ALL_TIERS = 15;

/** A name that stood for another place before: released once the chain it is now in stands. */
interface Moved {
  readonly place: number;
  readonly tiers: number;
}

/**
 * The prefix index as a tree of runs in typed arrays (`run-layout.ts`), with each worker's names beside it.
 *
 * Invariant: a lane's cover of a run has every block of it that a name of the worker leads to. So a block without covers
 * is led to by no name, and may be freed.
 */
class RunIndex implements PrefixIndex {
  readonly #heap: Heap;
  readonly #hash: BlockHash;
  readonly #scratch: Scratch;
  readonly #tree: RunTree;
  readonly #workers = new WorkerTable();
  readonly #matcher: Matcher;
  readonly #history: History = createHistory();
  readonly #reclaimer: Reclaimer;
  readonly #names = new NameWords();
  readonly #spares = new SpareNames();
  readonly #capBytes: number;
  readonly seed: number;
  #clock = 0;
  #orphans = 0;
  #unknown = 0;
  #dropped = 0;
  #corrections = 0;
  #lookups = 0;
  #hits = 0;

  constructor({ capBytes, seed }: PrefixIndexOptions) {
    this.#capBytes = capBytes;
    this.seed = seed;
    this.#heap = new Heap(capBytes);
    this.#hash = createBlockHash(hashKeys(seed), this.#heap.memory);
    this.#scratch = new Scratch(this.#heap, this.#hash);
    this.#tree = new RunTree(this.#heap, this.#workers);
    this.#matcher = new Matcher(this.#tree, this.#workers, this.#hash, this.#scratch);
    this.#reclaimer = new Reclaimer(this.#tree, this.#workers, this.#spares, this.#history, capBytes);
  }

  get clock(): number {
    return this.#clock;
  }

  /** The clock as records keep it: below 2^31, so that it never looks like a free unit's mark. It wraps after weeks. */
  get #stamp(): number {
    return this.#clock & 0x7fffffff;
  }

  addWorker(id: WorkerId, options: WorkerOptions = {}): WorkerSlot {
    const worker = this.#workers.add(id, options);
    this.#history.add(worker.slot, worker.historyEntries);
    return worker.slot;
  }

  dropWorker(slot: WorkerSlot): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    this.#spares.forgetLanes(worker.lanes);
    this.#workers.drop(worker);
    this.#history.drop(slot);
  }

  clearWorker(slot: WorkerSlot): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    this.#spares.forgetLanes(worker.lanes);
    this.#workers.clear(worker);
    this.#history.clear(slot);
  }

  workerOf(slot: WorkerSlot): WorkerId | undefined {
    return this.#workers.get(slot)?.id;
  }

  store(slot: WorkerSlot, blocks: StoredBlocks): boolean {
    const count = Math.min(blocks.names.length, blocks.ends.length);
    checkEnds(blocks, count);
    const worker = this.#workers.get(slot);
    this.#reclaimer.step(count);
    const parent = worker === undefined ? 0 : this.#parentPlace(worker, blocks);
    if (worker === undefined || parent < 0) {
      this.#orphans += blocks.names.length;
      return false;
    }
    this.#clock++;
    worker.blockTokens = blocks.blockTokens;
    const stored = this.#storeBelow(worker, parent, blocks, count);
    if (stored < count) this.#dropped += count - stored;
    return true;
  }

  /** Place of the parent block; 0 for the root, -1 when it is not known. */
  #parentPlace(worker: WorkerState, { parent }: StoredBlocks): number {
    if (parent === undefined) return 0;
    const [low, high] = this.#names.one(parent);
    const place = worker.names.get(low, high) & PLACE_MASK;
    return place === 0 || this.#tree.isDead(this.#tree.runOf(place)) ? -1 : place;
  }

  #storeBelow(worker: WorkerState, parent: number, blocks: StoredBlocks, count: number): number {
    if (
      count === 0 ||
      !this.#reclaimer.makeRoomForBlocks(count) ||
      !this.#scratch.loadBlocks(blocks.bytes, blocks.ends, count)
    )
      return 0;
    const run = parent === 0 ? this.#tree.ensureRoot(blocks.root) : this.#tree.runOf(parent);
    if (run === 0) return 0;
    this.#names.load(blocks.names, 0, count);
    const moved: Moved[] = [];
    const stored = this.#place(worker, tierRank(blocks.tier), run, parent, count, moved);
    for (const { place, tiers } of moved) this.#releasePlace(worker, place, tiers);
    if (parent === 0 && stored === 0 && this.#tree.root(blocks.root) === run) this.#tree.trim(run);
    return stored;
  }

  /** Walk down from a place along blocks that are there, branch and append where they are not. Returns how many are placed. */
  #place(worker: WorkerState, tier: number, run: number, parent: number, count: number, moved: Moved[]): number {
    const tree = this.#tree;
    let at = parent === 0 ? 0 : parent - this.#heap.words[4 * run + RUN.blocks]! + 1;
    let done = 0;
    while (done < count) {
      const w = this.#heap.words;
      const length = w[4 * run + RUN.length]!;
      const blocks = w[4 * run + RUN.blocks]!;
      const record = this.#scratch.records + done;
      let place = blocks + at;
      let same = 0;
      if (at < length) {
        same = this.#hash.sameBlocks(place * UNIT_BYTES, record * UNIT_BYTES, Math.min(length - at, count - done));
        if (same === 0) {
          run = tree.split(run, at);
          if (run === 0) return done;
          continue;
        }
      } else {
        const child = tree.findChild(run, record);
        if (child !== 0) {
          run = child;
          at = 0;
          continue;
        }
        place = appendBlocks(tree, run, record, count - done);
        if (place === 0) return done;
        run = tree.runOf(place);
        same = Math.min(count - done, tree.blocksFrom(place));
      }
      if (!this.#hold(worker, tier, place, done, same, moved)) {
        tree.trim(tree.runOf(place));
        return done;
      }
      done += same;
      run = tree.runOf(place + same - 1);
      at = place + same - this.#heap.words[4 * run + RUN.blocks]!;
      this.#heap.words[4 * run + RUN.touched] = this.#stamp;
    }
    return done;
  }

  /** Let a worker hold placed blocks of one run under the loaded names from `first` on. False when there is no memory. */
  #hold(worker: WorkerState, tier: number, place: number, first: number, count: number, moved: Moved[]): boolean {
    const lane = this.#workers.lane(worker, tier);
    const run = this.#tree.runOf(place);
    const cover = this.#tree.findCover(run, lane);
    const blocks = this.#heap.words[4 * run + RUN.blocks]!;
    const heldFrom = cover < 0 ? 0 : blocks + (this.#heap.words[cover + 1]! & 0xffff);
    const heldTo = cover < 0 ? 0 : blocks + (this.#heap.words[cover + 1]! >>> 16);
    if (!holdBlocks(this.#tree, lane, place, count, this.#stamp)) return false;
    const { words } = this.#names;
    const bit = 1 << tier;
    for (let i = 0; i < count; i++) {
      const low = words[2 * (first + i)]!;
      const high = words[2 * (first + i) + 1]!;
      const at = place + i;
      const before = worker.names.set(low, high, at | (bit << TIER_SHIFT));
      let isNew = true;
      if (before !== 0) {
        const place = before & PLACE_MASK;
        const tiers = before >>> TIER_SHIFT;
        if (place === at) {
          worker.names.set(low, high, before | (bit << TIER_SHIFT));
          isNew = (tiers & bit) === 0;
        } else {
          moved.push({ place, tiers });
        }
      }
      if (isNew && at >= heldFrom && at < heldTo) this.#spares.add(lane, at);
    }
    return true;
  }

  #releasePlace(worker: WorkerState, place: number, tiers: number): void {
    for (let tier = 0; tier < TIERS.length; tier++) {
      if ((tiers & (1 << tier)) === 0) continue;
      const lane = worker.lanes[tier]!;
      if (!this.#spares.use(lane, place)) releaseBlock(this.#tree, lane, place);
    }
  }

  remove(slot: WorkerSlot, names: BlockNames, tier?: Tier): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    this.#reclaimer.step(names.length);
    const asked = tier === undefined ? ALL_TIERS : 1 << tierRank(tier);
    this.#names.load(names, 0, names.length);
    const { words } = this.#names;
    for (let i = 0; i < names.length; i++) {
      const low = words[2 * i]!;
      const high = words[2 * i + 1]!;
      const value = worker.names.delete(low, high);
      const place = value & PLACE_MASK;
      const tiers = value >>> TIER_SHIFT;
      const left = tiers & ~asked;
      if (left !== 0) worker.names.set(low, high, place | (left << TIER_SHIFT));
      if ((tiers & asked) === 0) this.#unknown++;
      else this.#releasePlace(worker, place, tiers & asked);
    }
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt): void {
    if (this.#workers.get(slot) === undefined) return;
    this.#clock++;
    this.#reclaimer.step(1);
    if (this.#reclaimer.makeRoom(prompt.bytes.length + ENTRY_OVERHEAD)) this.#history.record(slot, prompt, this.#clock);
  }

  match(root: string, prompt: Uint8Array, out: PrefixMatch[] = []): PrefixMatch[] {
    this.#lookups++;
    let count = 0;
    const tell = (
      worker: WorkerState,
      source: "events" | "history",
      blocks: number,
      tokens: number,
      bytes: number,
      tier: number,
    ) => {
      const entry = (out[count++] ??= { ...NO_MATCH });
      entry.slot = worker.slot;
      entry.worker = worker.id;
      entry.blocks = blocks;
      entry.tokens = tokens;
      entry.bytes = bytes;
      entry.tier = TIERS[tier]!;
      entry.source = source;
    };
    this.#matcher.match(this.#tree.root(root), prompt, this.#stamp, (index, { blocks, bytes, tier }) => {
      const worker = this.#workers.at(index)!;
      tell(worker, "events", blocks, blocks * worker.blockTokens, bytes, tier);
    });
    this.#history.match(root, prompt, (slot, bytes, tokens) => {
      tell(this.#workers.get(slot)!, "history", 0, tokens, bytes, 0);
    });
    out.length = count;
    if (count > 0) this.#hits++;
    return out;
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since = Infinity): boolean {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return false;
    let changed = this.#history.correct(slot, root, prompt, reportedTokens, since);
    const keep = worker.blockTokens > 0 ? Math.floor(reportedTokens / worker.blockTokens) : 0;
    const isOurs = (lane: number) => this.#workers.laneWorkers[lane] === worker.index;
    for (const { blocks, held, depth } of this.#matcher.path(
      this.#tree.root(root),
      prompt,
      this.#clock,
      worker.index,
    )) {
      if (depth + held <= keep) continue;
      if (hideBlocks(this.#tree, blocks, Math.max(keep - depth, 0), held, isOurs, since)) changed = true;
    }
    if (changed) this.#corrections++;
    return changed;
  }

  setCounted(_slot: WorkerSlot, _names: BlockNames, _counted: boolean): void {}

  save(_slot: WorkerSlot): Iterable<Uint8Array> {
    return [];
  }

  load(_slot: WorkerSlot, _chunk: Uint8Array): boolean {
    return false;
  }

  stats(): IndexStats {
    let blocks = 0;
    for (const worker of this.#workers.all()) blocks += worker.names.size;
    return {
      workers: this.#workers.count,
      runs: this.#tree.runCount,
      blocks,
      blocksByTier: { device: blocks, host: 0, disk: 0, shared: 0 },
      uncountedBlocks: 0,
      bytes: this.#reclaimer.usedBytes(),
      capBytes: this.#capBytes,
      historyEntries: this.#history.size,
      orphanBlocks: this.#orphans,
      unknownRemovals: this.#unknown,
      evictedBlocks: this.#dropped + this.#reclaimer.evictedBlocks,
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
export function createPrefixIndex(options: PrefixIndexOptions): PrefixIndex {
  return new RunIndex(options);
}
