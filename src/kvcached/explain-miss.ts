import type { BlockName } from "../core/kv-event.ts";
import type { JournalEntry, KeptBlocks } from "./change-journal.ts";

/** A request of which the engine reported another number of cached tokens than was predicted. */
export interface Miss {
  readonly root: string;
  readonly prompt: Uint8Array;
  readonly predictedTokens: number;
  readonly reportedTokens: number;
  readonly blockTokens: number;
  /** What the engine counts is a multiple of so many tokens. */
  readonly alignTokens: number;
  /** Where some of the prompt's blocks end: by these a chain is placed whose parent was stored long ago. */
  readonly anchors: readonly Anchor[];
  /** Blocks of the prompt that are held now. */
  readonly heldNow: number;
}

/** The first `blocks` blocks of a prompt are its first `bytes` bytes. */
export interface Anchor {
  readonly blocks: number;
  readonly bytes: number;
}

/** Places of a block's bytes in a prompt that are tried. */
const MAX_PLACES = 64;
/** What stands for a block that was held before the first change: its name is not known. */
const OLD = "old";

/**
 * The change by which an index that predicted `predictedTokens` came to say `reportedTokens`: the engine knew of it when it
 * looked, and its event was on its way. Undefined when none of them leads there.
 *
 * The changes are gone through block by block for this one prompt. Names are all that removals tell, so it is learnt from the
 * chains among the changes, also from later ones (what was removed is computed and stored again under the same name), which
 * block of the prompt a name is.
 * @param changes - of this worker since the prediction, in their order
 */
export function explainMiss(miss: Miss, changes: readonly JournalEntry[]): JournalEntry | undefined {
  const { reportedTokens, blockTokens } = miss;
  if (blockTokens <= 0 || reportedTokens % blockTokens !== 0) return undefined;
  const path = new PromptPath(miss);
  let open = changes.filter((change) => change.type === "stored");
  // By parents and names first; a search for text is made once for each chain, when nothing else places one.
  for (let byText = false; ; ) {
    const rest = open.filter((chain) => !path.learn(chain, byText));
    if (rest.length === open.length && byText) break;
    byText = rest.length === open.length;
    open = rest;
  }
  const held = new HeldBlocks(miss, path);
  return changes.find((change) => held.apply(change));
}

/** Which names are which blocks of a prompt, as far as chains tell. */
class PromptPath {
  readonly depths = new Map<BlockName, number>();
  /** Chain → its blocks that are the prompt's, from which one on. */
  readonly placed = new Map<KeptBlocks, { readonly from: number; readonly count: number }>();
  readonly #miss: Miss;
  readonly #prompt: Buffer;
  readonly #searched = new Set<KeptBlocks>();
  /** Number of blocks → where they end in the prompt. */
  readonly #ends = new Map<number, number>([[0, 0]]);

  constructor(miss: Miss) {
    const { prompt, anchors } = miss;
    this.#miss = miss;
    this.#prompt = Buffer.from(prompt.buffer, prompt.byteOffset, prompt.byteLength);
    for (const { blocks, bytes } of anchors) this.#ends.set(blocks, bytes);
  }

  /**
   * @param byText - look for its text too, unless that was done before
   * @returns whether it is known now what this chain is of the prompt
   */
  learn(chain: KeptBlocks, byText: boolean): boolean {
    const place = this.#find(chain) ?? (byText ? this.#byText(chain) : undefined);
    if (place === undefined) return chain.parent === undefined;
    const count = this.#same(chain, place.byte);
    this.placed.set(chain, { from: place.from, count });
    if (count > 0 && chain.parent !== undefined && place.from > 0) {
      this.depths.set(chain.parent, place.from - 1);
      this.#ends.set(place.from, place.byte);
    }
    for (let i = 0; i < count; i++) {
      this.depths.set(chain.names[i]!, place.from + i);
      this.#ends.set(place.from + i + 1, place.byte + chain.ends[i]!);
    }
    return true;
  }

  /** Number and first byte of the chain's first block. */
  #find(chain: KeptBlocks): { readonly from: number; readonly byte: number } | undefined {
    const { parent, names, ends } = chain;
    if (parent === undefined) return chain.root === this.#miss.root ? { from: 0, byte: 0 } : undefined;
    const above = this.depths.get(parent);
    if (above !== undefined) return { from: above + 1, byte: this.#ends.get(above + 1)! };
    for (const [i, name] of names.entries()) {
      const depth = this.depths.get(name);
      if (depth !== undefined) return { from: depth - i, byte: this.#ends.get(depth + 1)! - ends[i]! };
    }
    return undefined;
  }

  /** A place of the chain's text where one of its blocks begins or ends with a block of the prompt whose end is known. */
  #byText(chain: KeptBlocks): { readonly from: number; readonly byte: number } | undefined {
    if (this.#searched.has(chain)) return undefined;
    this.#searched.add(chain);
    const { bytes, ends } = chain;
    const first = bytes.subarray(0, ends[0]);
    if (first.length === 0) return undefined;
    for (let at = -1, n = 0; n < MAX_PLACES; n++) {
      at = this.#prompt.indexOf(first, at + 1);
      if (at < 0) return undefined;
      for (const [blocks, end] of this.#ends) {
        if (end === at) return { from: blocks, byte: at };
        const i = ends.indexOf(end - at);
        if (i >= 0 && blocks > i && this.#same({ bytes, ends }, at) > i) return { from: blocks - 1 - i, byte: at };
      }
    }
    return undefined;
  }

  /** How many of the chain's blocks the prompt has from this byte on; its last byte is always computed anew. */
  #same({ bytes, ends }: Pick<KeptBlocks, "bytes" | "ends">, byte: number): number {
    let begin = 0;
    for (const [i, end] of ends.entries()) {
      if (byte < 0 || byte + end >= this.#prompt.length) return i;
      if (this.#prompt.compare(bytes, begin, end, byte + begin, byte + end) !== 0) return i;
      begin = end;
    }
    return ends.length;
  }
}

/** Which of a prompt's blocks are held, change by change. */
class HeldBlocks {
  readonly #miss: Miss;
  readonly #path: PromptPath;
  /** Block → the names under which it is held, for those that changed. */
  readonly #names = new Map<number, Set<BlockName | typeof OLD>>();
  readonly #stored = new Set<number>();
  readonly #predicted: number;
  #cleared = false;
  /** Blocks held from the prompt's start on. */
  #run: number;

  constructor(miss: Miss, path: PromptPath) {
    this.#miss = miss;
    this.#path = path;
    this.#predicted = Math.floor(miss.predictedTokens / miss.blockTokens);
    this.#run = this.#predicted;
    for (const { from, count } of path.placed.values()) for (let i = 0; i < count; i++) this.#stored.add(from + i);
  }

  /** @returns whether with this change, or a part of it, the index said what the engine said */
  apply(change: JournalEntry): boolean {
    if (change.type === "cleared") {
      this.#names.clear();
      this.#cleared = true;
      this.#run = 0;
      return this.#miss.reportedTokens === 0;
    }
    const counts = change.type === "stored" || (change.type === "counted" && change.counted);
    const placed = change.type === "stored" ? (this.#path.placed.get(change)?.count ?? 0) : change.names.length;
    for (const name of change.names.subarray(0, placed)) {
      const block = this.#path.depths.get(name);
      if (block === undefined) continue;
      this.#hold(block, name, counts);
      if (this.#tokens() === this.#miss.reportedTokens) return true;
    }
    return false;
  }

  #hold(block: number, name: BlockName, holds: boolean): void {
    const names = this.#names.get(block) ?? new Set(this.#wasHeld(block) ? [OLD] : []);
    if (!names.delete(name) || holds) names.delete(OLD);
    if (holds) names.add(name);
    this.#names.set(block, names);
    if (names.size === 0) this.#run = Math.min(this.#run, block);
    while (this.#isHeld(this.#run)) this.#run++;
  }

  /** Before the first change. What lies beyond the first block that was missing and was not stored since was there all the time. */
  #wasHeld(block: number): boolean {
    if (this.#cleared || block === this.#predicted) return false;
    return block < this.#predicted || (block < this.#miss.heldNow && !this.#stored.has(block));
  }

  #isHeld(block: number): boolean {
    const names = this.#names.get(block);
    return names === undefined ? this.#wasHeld(block) : names.size > 0;
  }

  #tokens(): number {
    const tokens = this.#run * this.#miss.blockTokens;
    return tokens - (tokens % this.#miss.alignTokens);
  }
}
