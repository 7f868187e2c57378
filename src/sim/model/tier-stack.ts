import type { BlockName, BlockNamer } from "./cache-event.ts";
import type { TierLimits } from "./limits.ts";
import { fullBlocks, nameOf, type Sequence } from "./sequence.ts";
import { type TierName, TierStore } from "./tier-store.ts";

/** Blocks to read from one tier. */
export interface TierRead {
  readonly name: TierName;
  readonly blocks: number;
}

/** What tiers add to a match on the device. */
export interface TierMatch {
  readonly blocks: number;
  /** In the order of the tiers. */
  readonly reads: readonly TierRead[];
}

interface Link {
  readonly limits: TierLimits;
  readonly store: TierStore;
  /** When its last read ends: reads of one link follow each other. */
  freeAt: number;
}

const NOTHING: TierMatch = { blocks: 0, reads: [] };

/** Where an engine keeps blocks besides its device: what is written, what is lost, how long a read takes. */
export class TierStack {
  readonly #links: readonly Link[];
  readonly #blockBytes: number;
  readonly #blockTokens: number;
  readonly #namer: BlockNamer;

  constructor(options: {
    readonly tiers: readonly TierLimits[];
    readonly blockBytes: number;
    readonly blockTokens: number;
    readonly namer: BlockNamer;
  }) {
    this.#links = options.tiers.map((limits) => ({
      limits,
      store: limits.shared ?? new TierStore(limits.blocks),
      freeAt: Number.NEGATIVE_INFINITY,
    }));
    this.#blockBytes = options.blockBytes;
    this.#blockTokens = options.blockTokens;
    this.#namer = options.namer;
  }

  get any(): boolean {
    return this.#links.length > 0;
  }

  /** Blocks kept, by tier. */
  sizes(): Readonly<Partial<Record<TierName, number>>> {
    return Object.fromEntries(this.#links.map(({ limits, store }) => [limits.name, store.size]));
  }

  /** A block's content is on the device now, computed or read. */
  stored(name: BlockName): void {
    for (const [i, { limits, store }] of this.#links.entries()) {
      if (store.has(name)) store.touch(name);
      else if (writeOf(limits, i) === "through") this.#put(i, name);
    }
  }

  /** The first blocks of a sequence were found on the device and will be used. */
  reused(sequence: Sequence, blocks: number): void {
    if (!this.any) return;
    for (let b = 0; b < blocks; b++) {
      const name = nameOf(sequence, b, this.#blockTokens, this.#namer);
      for (const [i, { limits, store }] of this.#links.entries()) {
        if (store.has(name)) store.touch(name);
        else if (writeOf(limits, i) === "reused") this.#put(i, name);
      }
    }
  }

  /** The device lost a block. */
  evicted(name: BlockName): void {
    const [first] = this.#links;
    if (first === undefined || writeOf(first.limits, 0) !== "evicted") return;
    if (!first.store.has(name)) this.#put(0, name);
  }

  /** What follows the first `from` blocks without a gap, up to the last token. */
  match(sequence: Sequence, from: number): TierMatch {
    if (!this.any) return NOTHING;
    const all = fullBlocks(sequence, sequence.length, this.#blockTokens);
    const most = Math.min(all, Math.floor((sequence.length - 1) / this.#blockTokens));
    const counts = this.#links.map(() => 0);
    let i = from;
    for (; i < most; i++) {
      const name = nameOf(sequence, i, this.#blockTokens, this.#namer);
      const at = this.#links.findIndex(({ store }) => store.has(name));
      if (at < 0) break;
      counts[at]!++;
    }
    if (i === from) return NOTHING;
    const reads = this.#links.flatMap(({ limits: { name } }, at) =>
      counts[at] === 0 ? [] : [{ name, blocks: counts[at]! }],
    );
    return { blocks: i - from, reads };
  }

  /** Start reading. @returns when all is there, and how long steps stand still for it */
  read(at: number, { reads }: TierMatch): { readonly endsAt: number; readonly stallMs: number } {
    let endsAt = at;
    let stallMs = 0;
    for (const { name, blocks } of reads) {
      const link = this.#links.find(({ limits }) => limits.name === name)!;
      const { gbPerS, latencyMs, blocksStep } = link.limits;
      const ms = latencyMs + (blocks * this.#blockBytes) / (gbPerS * 1e6);
      link.freeAt = Math.max(at, link.freeAt) + ms;
      if (blocksStep === true) stallMs += ms;
      else endsAt = Math.max(endsAt, link.freeAt);
    }
    return { endsAt, stallMs };
  }

  #put(from: number, block: BlockName): void {
    let name: BlockName | undefined = block;
    for (let i = from; i < this.#links.length && name !== undefined; i++) {
      const { limits, store } = this.#links[i]!;
      if (i > from && (writeOf(limits, i) !== "evicted" || store.has(name))) return;
      name = store.put(name);
    }
  }
}

function writeOf({ write }: TierLimits, index: number): "through" | "reused" | "evicted" {
  return write ?? (index === 0 ? "through" : "evicted");
}
