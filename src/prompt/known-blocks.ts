/** A block that was seen, with what is needed to read on behind it. */
export interface KnownBlock {
  readonly name: bigint;
  /** Undefined at the root. */
  readonly parent: bigint | undefined;
  readonly ids: Uint32Array;
  /** It came alone, as blocks of generated tokens do. What follows such a block follows it nowhere else. */
  readonly alone: boolean;
  /** Its ids are not those of its text, or a block before it is so. */
  bad: boolean;
}

/** Tokens that stand before a place in a chain, as far as they are known. */
export interface ChainTail {
  /** The blocks, in order; the first one is cut to what is asked for. */
  readonly blocks: readonly KnownBlock[];
  readonly ids: readonly number[];
  /** [blocks.length] where each block's last token ends in `ids`. */
  readonly ends: readonly number[];
  /** The first of `ids` is a place where text can be cut, see `TokenBorders`. */
  readonly cut: boolean;
}

/** The blocks of one worker that were seen last, by name. A bound on memory: the ones seen longest ago are forgotten. */
export class KnownBlocks {
  readonly #blocks = new Map<bigint, KnownBlock>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get(name: bigint): KnownBlock | undefined {
    return this.#blocks.get(name);
  }

  add(block: KnownBlock): void {
    this.#blocks.delete(block.name);
    this.#blocks.set(block.name, block);
    if (this.#blocks.size > this.#max) this.#blocks.delete(this.#blocks.keys().next().value as bigint);
  }

  clear(): void {
    this.#blocks.clear();
  }

  /**
   * The tokens up to the end of block `name`, back to the last place (at least `atLeast` tokens before its end) where text can
   * be cut, or to `atMost` tokens, or to where nothing is known.
   */
  tail(
    name: bigint | undefined,
    isCut: (before: number, id: number) => boolean,
    atLeast: number,
    atMost: number,
  ): ChainTail {
    const blocks: KnownBlock[] = [];
    const parts: Uint32Array[] = [];
    let length = 0;
    let next = name;
    while (next !== undefined) {
      const block = this.#blocks.get(next);
      if (block === undefined) break;
      const after = parts[0]?.[0];
      if (after !== undefined && length >= atLeast && isCut(block.ids.at(-1) as number, after)) {
        return assembled(blocks, parts, true);
      }
      const from = lastCut(block.ids, Math.min(block.ids.length, block.ids.length + length - atLeast), isCut);
      blocks.unshift(block);
      parts.unshift(from === undefined ? block.ids : block.ids.subarray(from));
      if (from !== undefined) return assembled(blocks, parts, true);
      length += block.ids.length;
      next = block.parent;
      if (length >= atMost) return assembled(blocks, parts, false);
    }
    // A prompt's start is a place to cut, too.
    return assembled(blocks, parts, name === undefined || (next === undefined && blocks[0]?.parent === undefined));
  }
}

/** The last i in 1..upTo with a cut before ids[i]. */
function lastCut(ids: Uint32Array, upTo: number, isCut: (before: number, id: number) => boolean): number | undefined {
  for (let i = Math.min(upTo, ids.length - 1); i > 0; i--) if (isCut(ids[i - 1]!, ids[i]!)) return i;
  return undefined;
}

function assembled(blocks: readonly KnownBlock[], parts: readonly Uint32Array[], cut: boolean): ChainTail {
  const ids: number[] = [];
  const ends: number[] = [];
  for (const part of parts) {
    ids.push(...part);
    ends.push(ids.length);
  }
  return { blocks, ids, ends, cut };
}
