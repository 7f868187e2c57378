import type { WorkerId } from "../core/ids.ts";
import type { BlockName, Tier } from "../core/kv-event.ts";
import type { History } from "./history.ts";
import { createNaiveHistory } from "./naive-history.ts";
import { loadNaive, saveNaive } from "./naive-snapshot.ts";
import type {
  BlockNames,
  IndexStats,
  PrefixIndex,
  PrefixMatch,
  RecordedPrompt,
  StoredBlocks,
  WorkerSlot,
} from "./prefix-index.ts";
import { TIERS, tierRank } from "./tiers.ts";

/** A position in the naive tree: the bytes of the block that leads here, as Latin-1 text, and what follows. */
export interface Node {
  readonly parent: Node | undefined;
  readonly blocks: Map<string, Node>;
  /** What each worker holds here, by lane: tier × 2, plus 1 for names that do not count. */
  readonly held: Map<WorkerSlot, Held[]>;
}

/** One lane's hold of one position: under how many names, when last stored, and whether a correction hides it. */
interface Held {
  names: number;
  stamp: number;
  hidden: boolean;
}

export interface Named {
  readonly node: Node;
  /** Bit t is set when it lies in tier number t. */
  tiers: number;
  counted: boolean;
}

export interface Worker {
  readonly id: WorkerId;
  blockTokens: number;
  readonly names: Map<BlockName, Named>;
}

interface Depth {
  readonly blocks: number;
  readonly bytes: number;
  readonly tier: number;
}

/** More blocks, then more bytes, then the faster tier: where two chains of one worker fit the same prompt. */
function isBetter(a: Depth, b: Depth): boolean {
  if (a.blocks !== b.blocks) return a.blocks > b.blocks;
  if (a.bytes !== b.bytes) return a.bytes > b.bytes;
  return a.tier < b.tier;
}

function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i]!);
  return text;
}
const LANES = TIERS.flatMap((_, tier) => [2 * tier, 2 * tier + 1]);
/** Whether a hold counts for a match; of the lanes, every second does not. */
const isCounting = ({ names, hidden }: Held, lane: number): boolean => lane % 2 === 0 && names > 0 && !hidden;
const newNode = (parent: Node | undefined): Node => ({ parent, blocks: new Map(), held: new Map() });

function child(node: Node, text: string): Node {
  const known = node.blocks.get(text) ?? newNode(node);
  node.blocks.set(text, known);
  return known;
}

/**
 * The plain twin of the run index: one object a block, no cap. It is what the fast one is compared with, and is written to
 * be read, not to be fast. Blocks are told apart by their bytes, not by a hash.
 */
class NaiveIndex implements PrefixIndex {
  readonly #roots = new Map<string, Node>();
  readonly #workers = new Map<WorkerSlot, Worker>();
  readonly #history: History = createNaiveHistory();
  #nextSlot = 0;
  #clock = 0;
  #orphans = 0;
  #unknown = 0;
  #corrections = 0;
  #lookups = 0;
  #hits = 0;
  readonly seed: number;

  constructor(seed: number) {
    this.seed = seed;
  }

  get clock(): number {
    return this.#clock;
  }

  addWorker(id: WorkerId, options: { readonly historyEntries?: number } = {}): WorkerSlot {
    const slot = this.#nextSlot++;
    this.#workers.set(slot, { id, blockTokens: 0, names: new Map() });
    this.#history.add(slot, options.historyEntries ?? 16);
    return slot;
  }

  dropWorker(slot: WorkerSlot): void {
    this.clearWorker(slot);
    this.#workers.delete(slot);
    this.#history.drop(slot);
  }

  clearWorker(slot: WorkerSlot): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    for (const { node } of worker.names.values()) node.held.delete(slot);
    worker.names.clear();
    this.#history.clear(slot);
  }

  workerOf(slot: WorkerSlot): WorkerId | undefined {
    return this.#workers.get(slot)?.id;
  }

  blocksOf(slot: WorkerSlot): number {
    return this.#workers.get(slot)?.names.size ?? 0;
  }

  store(slot: WorkerSlot, blocks: StoredBlocks): boolean {
    const worker = this.#workers.get(slot);
    let node = blocks.parent === undefined ? this.#root(blocks.root) : worker?.names.get(blocks.parent)?.node;
    if (worker === undefined || node === undefined) {
      this.#orphans += blocks.names.length;
      return false;
    }
    this.#clock++;
    worker.blockTokens = blocks.blockTokens;
    let start = 0;
    let counted = blocks.parent === undefined || worker.names.get(blocks.parent)!.counted;
    for (const [i, name] of blocks.names.entries()) {
      const end = blocks.ends[i] ?? start;
      node = child(node, latin1(blocks.bytes.subarray(start, end)));
      counted = this.#hold(slot, worker, name, node, tierRank(blocks.tier), counted);
      start = end;
    }
    return true;
  }

  #root(key: string): Node {
    const root = this.#roots.get(key) ?? newNode(undefined);
    this.#roots.set(key, root);
    return root;
  }

  /** @returns whether the block counts, which the next one inherits */
  #hold(slot: WorkerSlot, worker: Worker, name: BlockName, node: Node, tier: number, inherited: boolean): boolean {
    const before = worker.names.get(name);
    if (before !== undefined && before.node !== node) this.#release(slot, worker, name, before, before.tiers);
    const named = worker.names.get(name) ?? { node, tiers: 0, counted: inherited };
    worker.names.set(name, named);
    if (!inherited) this.#setCounted(slot, named, false);
    const held = this.#lane(slot, node, tier, named.counted);
    if ((named.tiers & (1 << tier)) === 0) held.names++;
    named.tiers |= 1 << tier;
    held.stamp = this.#clock;
    held.hidden = false;
    return named.counted;
  }

  #lane(slot: WorkerSlot, node: Node, tier: number, counted: boolean): Held {
    const lanes = node.held.get(slot) ?? LANES.map(() => ({ names: 0, stamp: 0, hidden: false }));
    node.held.set(slot, lanes);
    return lanes[2 * tier + (counted ? 0 : 1)]!;
  }

  #release(slot: WorkerSlot, worker: Worker, name: BlockName, named: Named, tiers: number): void {
    for (let tier = 0; tier < TIERS.length; tier++) {
      if ((named.tiers & tiers & (1 << tier)) !== 0) this.#letGo(this.#lane(slot, named.node, tier, named.counted));
    }
    if (named.node.held.get(slot)!.every((h) => h.names === 0)) named.node.held.delete(slot);
    named.tiers &= ~tiers;
    if (named.tiers === 0) worker.names.delete(name);
  }

  #letGo(held: Held): void {
    if (--held.names === 0) held.hidden = false;
  }

  setCounted(slot: WorkerSlot, names: BlockNames, counted: boolean): void {
    const worker = this.#workers.get(slot);
    for (const name of names) {
      const named = worker?.names.get(name);
      if (named !== undefined) this.#setCounted(slot, named, counted);
    }
  }

  #setCounted(slot: WorkerSlot, named: Named, counted: boolean): void {
    if (named.counted === counted) return;
    for (let tier = 0; tier < TIERS.length; tier++) {
      if ((named.tiers & (1 << tier)) === 0) continue;
      this.#letGo(this.#lane(slot, named.node, tier, !counted));
      const held = this.#lane(slot, named.node, tier, counted);
      held.names++;
      held.stamp = this.#clock;
      held.hidden = false;
    }
    named.counted = counted;
  }

  remove(slot: WorkerSlot, names: BlockNames, tier?: Tier): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return;
    const tiers = tier === undefined ? 15 : 1 << tierRank(tier);
    for (const name of names) {
      const named = worker.names.get(name);
      if (named === undefined || (named.tiers & tiers) === 0) this.#unknown++;
      else this.#release(slot, worker, name, named, tiers);
    }
  }

  save(slot: WorkerSlot): Iterable<Uint8Array> {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return [];
    return saveNaive(this.seed, slot, worker, this.#roots, this.#history.entries(slot));
  }

  load(slot: WorkerSlot, chunk: Uint8Array): boolean {
    const worker = this.#workers.get(slot);
    const loaded = loadNaive(this.seed, chunk);
    if (worker === undefined || loaded === undefined) return false;
    this.#clock++;
    if (loaded.blockTokens > 0) worker.blockTokens = loaded.blockTokens;
    for (const { root, parent, texts, names, hidden } of loaded.blocks) {
      let node = parent === undefined ? this.#root(root) : worker.names.get(parent)?.node;
      if (node === undefined) this.#orphans++;
      else {
        for (const text of texts) node = child(node, text);
        for (const { name, tiers, counted } of names) {
          for (const tier of tiers) this.#hold(slot, worker, name, node, tier, true);
          this.#setCounted(slot, worker.names.get(name)!, counted);
        }
        for (const tier of hidden) this.#lane(slot, node, tier, true).hidden = true;
      }
    }
    for (const { root, bytes, marks, limit } of loaded.prompts) {
      this.#history.record(slot, { root, bytes, marks }, this.#clock, limit);
    }
    return true;
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt): void {
    if (!this.#workers.has(slot)) return;
    this.#clock++;
    this.#history.record(slot, prompt, this.#clock);
  }

  match(root: string, prompt: Uint8Array, out: PrefixMatch[] = []): PrefixMatch[] {
    this.#lookups++;
    out.length = 0;
    const text = latin1(prompt);
    for (const [slot, worker] of this.#workers) {
      const best = this.#longest(slot, this.#roots.get(root), text, 0);
      if (best.blocks > 0) {
        const tokens = best.blocks * worker.blockTokens;
        const tier = TIERS[best.tier]!;
        out.push({ slot, worker: worker.id, blocks: best.blocks, tokens, bytes: best.bytes, tier, source: "events" });
      }
    }
    this.#history.match(root, prompt, (slot, bytes, tokens) => {
      const worker = this.#workers.get(slot)!.id;
      out.push({ slot, worker, blocks: 0, tokens, bytes, tier: "device", source: "history" });
    });
    if (out.length > 0) this.#hits++;
    return out;
  }

  #longest(slot: WorkerSlot, node: Node | undefined, prompt: string, at: number): Depth {
    let best = { blocks: 0, bytes: at, tier: 0 };
    for (const [text, next] of node?.blocks ?? []) {
      const end = at + text.length;
      const lane = next.held.get(slot)?.findIndex(isCounting) ?? -1;
      const tier = Math.floor(lane / 2);
      if (tier < 0 || end >= prompt.length || !prompt.startsWith(text, at)) continue;
      const rest = this.#longest(slot, next, prompt, end);
      const found = { blocks: rest.blocks + 1, bytes: rest.bytes, tier: Math.max(tier, rest.tier) };
      if (isBetter(found, best)) best = found;
    }
    return best;
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since = Infinity): boolean {
    const worker = this.#workers.get(slot);
    if (worker === undefined) return false;
    let changed = this.#history.correct(slot, root, prompt, reportedTokens, since);
    const keep = worker.blockTokens > 0 ? Math.floor(reportedTokens / worker.blockTokens) : 0;
    const start = this.#roots.get(root);
    if (start !== undefined && this.#hide(slot, start, latin1(prompt), 0, keep, since)) changed = true;
    if (changed) this.#corrections++;
    return changed;
  }

  #hide(slot: WorkerSlot, node: Node, prompt: string, at: number, keep: number, since: number): boolean {
    let changed = false;
    for (const [text, next] of node.blocks) {
      const end = at + text.length;
      if (end >= prompt.length || !prompt.startsWith(text, at)) continue;
      const held = (next.held.get(slot) ?? []).filter(isCounting);
      if (held.length === 0) continue;
      if (this.#hide(slot, next, prompt, end, keep - 1, since)) changed = true;
      for (const h of held) {
        if (keep > 0 || h.stamp > since) continue;
        h.hidden = true;
        changed = true;
      }
    }
    return changed;
  }

  stats(): IndexStats {
    const names = [...this.#workers.values()].flatMap((worker) => [...worker.names.values()]);
    const inTier = (tier: Tier) => names.filter(({ tiers }) => (tiers & (1 << tierRank(tier))) !== 0).length;
    return {
      workers: this.#workers.size,
      runs: 0,
      blocks: names.length,
      blocksByTier: { device: inTier("device"), host: inTier("host"), disk: inTier("disk"), shared: inTier("shared") },
      uncountedBlocks: names.filter(({ counted }) => !counted).length,
      bytes: 0,
      capBytes: Infinity,
      historyEntries: this.#history.size,
      orphanBlocks: this.#orphans,
      unknownRemovals: this.#unknown,
      evictedBlocks: 0,
      corrections: this.#corrections,
      lookups: this.#lookups,
      hits: this.#hits,
    };
  }
}

/** Make the plain twin, for tests and for looking things up by eye. */
export function createNaiveIndex(seed = 0): PrefixIndex {
  return new NaiveIndex(seed);
}
