import type { CanonicalEncoder } from "./canonical-encoder.ts";
import { type CanonicalTools, decodeText, firstUncanonical } from "./compare-canonical.ts";
import { type ChainTail, type KnownBlock, KnownBlocks } from "./known-blocks.ts";
import { tokenBorders } from "./token-borders.ts";
import { utf8Prefix } from "./utf8-prefix.ts";

/** A chain that an engine stored. */
export interface CheckedChain {
  /** Undefined at the root. */
  readonly parent: bigint | undefined;
  readonly names: readonly bigint[] | BigUint64Array;
  /** [names × blockTokens] */
  readonly tokenIds: Uint32Array;
  readonly blockTokens: number;
  /** A router sent this text, so the engine made the ids from it. */
  readonly certain: boolean;
}

/** What a check found. */
export interface ChainVerdict {
  /** Blocks that a prompt with their text does not find: its tokens are others. */
  readonly uncounted: readonly bigint[];
  /** Tokens compared. */
  readonly checked: number;
  /** Tokens of which nothing can be said: what stands before them is not known, or the tokenizer does not spell them. */
  readonly unknown: number;
}

/** Tokens looked back at most for a place to cut the text. */
const MAX_BACK = 512;
/** Tokens by which the end of a chain is found again in an answer. */
const TAIL_TOKENS = 12;
/** Chains' ends and answers that wait for each other. */
const MAX_WAITING = 64;
/** Characters that follow a block's end, beyond which they decide nothing. */
const MAX_AFTER = 400;

/**
 * Finds, among the blocks of one worker, those that hold generated tokens which are not the canonical ones of their text. The
 * text comes back with the next turn and is then tokenised anew, so the engine misses there, though the bytes are the same.
 *
 * The text that follows decides about a block's last tokens: the blocks below it, or the rest of the answer (`answered()`).
 */
export class ChainChecker {
  readonly #tools: CanonicalTools;
  readonly #blocks: KnownBlocks;
  /** Blocks that came alone and have nothing below them yet. */
  readonly #ends = new Map<bigint, BlockEnd>();
  readonly #answers: string[] = [];

  /** @param maxBlocks - blocks whose ids are kept, so that what comes below them can be read */
  constructor(encoder: CanonicalEncoder, vocabulary: CanonicalTools["vocabulary"], maxBlocks = 16_384) {
    this.#tools = { encoder, vocabulary, borders: tokenBorders(encoder, vocabulary) };
    this.#blocks = new KnownBlocks(maxBlocks);
  }

  stored(chain: CheckedChain): ChainVerdict {
    const parent = chain.parent === undefined ? undefined : this.#blocks.get(chain.parent);
    if (chain.parent !== undefined) this.#ends.delete(chain.parent);
    const added = this.#add(chain, parent?.bad === true);
    if (parent?.bad === true) return { uncounted: added.map((block) => block.name), checked: 0, unknown: 0 };
    if (chain.certain || added.length === 0) return NOTHING;
    const tail = this.#tail(chain.parent, 1, chain.tokenIds[0]);
    const verdict = this.#compare(tail, added);
    const last = added.at(-1);
    if (last === undefined || !last.alone || last.bad) return verdict;
    return plus(verdict, this.#waitForAnswer(last));
  }

  /** An answer is whole: `text` is the end of its prompt with the answer. */
  answered(text: string): ChainVerdict {
    this.#answers.push(text);
    if (this.#answers.length > MAX_WAITING) this.#answers.shift();
    let verdict = NOTHING;
    for (const [name, end] of this.#ends) {
      const found = this.#continued(name, end, text);
      if (found !== undefined) verdict = plus(verdict, found);
    }
    return verdict;
  }

  clear(): void {
    this.#blocks.clear();
    this.#ends.clear();
    this.#answers.length = 0;
  }

  #add({ parent, names, tokenIds, blockTokens }: CheckedChain, bad: boolean): readonly KnownBlock[] {
    const added: KnownBlock[] = [];
    for (let i = 0; i < names.length; i++) {
      const ids = tokenIds.slice(i * blockTokens, (i + 1) * blockTokens);
      const name = names[i]!;
      const block = { name, parent: i === 0 ? parent : names[i - 1], ids, alone: names.length === 1, bad };
      this.#blocks.add(block);
      added.push(block);
    }
    return added;
  }

  #tail(name: bigint | undefined, atLeast: number, next?: number): ChainTail {
    const isCut = this.#tools.borders.between;
    const tail = this.#blocks.tail(name, isCut, atLeast, MAX_BACK);
    const last = tail.ids.at(-1);
    // White space at the end has waited for what comes now.
    if (!tail.cut || last === undefined || next === undefined || this.#tools.borders.endsBlank(last)) return tail;
    if (!isCut(last, next)) return tail;
    return { blocks: [], ids: [], ends: [], cut: true };
  }

  /** Compare the tokens before and those of new blocks with the ids of their text. */
  #compare(tail: ChainTail, added: readonly KnownBlock[], after?: string): ChainVerdict {
    const blocks = [...tail.blocks, ...added];
    const ends = [...tail.ends];
    let ids = [...tail.ids];
    for (const block of added) {
      ids.push(...block.ids);
      ends.push(ids.length);
    }
    const tokens = ids.length - tail.ids.length;
    const from = tail.cut ? 0 : this.#firstCut(ids);
    if (from === undefined) return { ...NOTHING, unknown: tokens };
    ids = ids.slice(from);
    const good = firstUncanonical(ids, this.#tools, after);
    if (good === undefined) return { ...NOTHING, unknown: tokens };
    const uncounted: bigint[] = [];
    for (const [i, block] of blocks.entries()) {
      // A block that others share is good with what follows it there.
      if (ends[i]! - from <= good || block.bad || (i < tail.blocks.length && !block.alone)) continue;
      block.bad = true;
      uncounted.push(block.name);
    }
    return { uncounted, checked: ids.length, unknown: Math.max(0, from - tail.ids.length) };
  }

  #firstCut(ids: readonly number[]): number | undefined {
    for (let i = 1; i < ids.length; i++) if (this.#tools.borders.between(ids[i - 1]!, ids[i]!)) return i;
    return undefined;
  }

  #waitForAnswer(block: KnownBlock): ChainVerdict {
    const bytes = this.#tools.vocabulary.decode(this.#tail(block.name, TAIL_TOKENS).ids);
    if (bytes === undefined) return NOTHING;
    const { length } = utf8Prefix(bytes);
    const end = { text: decodeText(bytes.subarray(0, length)), rest: bytes.subarray(length) };
    this.#ends.set(block.name, end);
    if (this.#ends.size > MAX_WAITING) this.#ends.delete(this.#ends.keys().next().value as bigint);
    for (const text of this.#answers.toReversed()) {
      const found = this.#continued(block.name, end, text);
      if (found !== undefined) return found;
    }
    return NOTHING;
  }

  /** The block's text goes on in `text`: decide about its last tokens. */
  #continued(name: bigint, end: BlockEnd, text: string): ChainVerdict | undefined {
    const after = textAfter(end, text);
    if (after === undefined) return undefined;
    this.#ends.delete(name);
    // What follows an answer is the turn's end, a special token.
    const tail = this.#tail(name, TAIL_TOKENS);
    return tail.cut ? this.#compare(tail, [], after) : NOTHING;
  }
}

/** What a block ends with. */
interface BlockEnd {
  readonly text: string;
  /** Bytes of a character that goes on in the next block. */
  readonly rest: Uint8Array;
}

/** What follows the block's last whole character in a text that holds its end; undefined when none does. */
function textAfter({ text: end, rest }: BlockEnd, text: string): string | undefined {
  if (end === "") return undefined;
  for (let at = text.lastIndexOf(end); at >= 0; at = at === 0 ? -1 : text.lastIndexOf(end, at - 1)) {
    const after = text.slice(at + end.length, at + end.length + MAX_AFTER);
    const bytes = new TextEncoder().encode(after.slice(0, 2));
    if (rest.every((byte, i) => byte === bytes[i])) return after;
  }
  return undefined;
}

const NOTHING: ChainVerdict = { uncounted: [], checked: 0, unknown: 0 };

function plus(a: ChainVerdict, b: ChainVerdict): ChainVerdict {
  return {
    uncounted: [...a.uncounted, ...b.uncounted],
    checked: a.checked + b.checked,
    unknown: a.unknown + b.unknown,
  };
}
