import type { BlockName, BlockNamer, ExtraKey } from "./cache-event.ts";
import { type AnyRequest, type BlockKey, isKeyed } from "./request.ts";

/** One request's tokens and what the cache holds for them. */
export interface Sequence {
  readonly lora: string;
  readonly salt: string;
  /** Prompt, then what was generated; undefined where only keys are known. */
  readonly tokens: number[] | undefined;
  /** Keys of its blocks, where there are no tokens. */
  readonly keys: readonly BlockKey[] | undefined;
  readonly promptTokens: number;
  /** Tokens, prompt and generated. */
  length: number;
  /** Device blocks held, by id from the root on; caches that only count put zeros. */
  readonly blocks: number[];
  /** Names of its full blocks, as far as they were computed. */
  readonly names: BlockName[];
  /** How many of `blocks` carry their name in the cache. */
  named: number;
}

export function sequenceOf(request: AnyRequest): Sequence {
  if (isKeyed(request)) return { ...empty(request.promptTokens), keys: request.blocks };
  const { lora, salt } = request;
  return { ...empty(request.prompt.length), lora, salt, tokens: [...request.prompt] };
}

/** Tokens of no request: a fault holds their blocks. */
export function emptySequence(): Sequence {
  return empty(0);
}

function empty(length: number): Sequence {
  const none = { lora: "", salt: "", tokens: undefined, keys: undefined };
  return { ...none, promptTokens: length, length, blocks: [], names: [], named: 0 };
}

/** How many blocks the first `tokens` tokens fill, as far as they have names. A part-filled one counts where its key is given. */
export function fullBlocks(sequence: Sequence, tokens: number, blockTokens: number): number {
  const whole = Math.floor(Math.min(tokens, sequence.length) / blockTokens);
  const { keys, promptTokens } = sequence;
  if (keys === undefined) return whole;
  const tail = tokens >= promptTokens && promptTokens % blockTokens !== 0 ? Math.ceil(promptTokens / blockTokens) : 0;
  return Math.min(keys.length, Math.max(whole, tail));
}

/** The name of block `index`, all before it included. */
export function nameOf(sequence: Sequence, index: number, blockTokens: number, namer: BlockNamer): BlockName {
  if (sequence.keys !== undefined) return sequence.keys[index]!;
  const { names, tokens } = sequence;
  for (let i = names.length; i <= index; i++) {
    const ids = tokens!.slice(i * blockTokens, (i + 1) * blockTokens);
    names.push(namer(names[i - 1] as string | undefined, ids, extraKeys(sequence, i)));
  }
  return names[index]!;
}

/** The adapter counts for every block, the salt for the first: the chain carries it on (vLLM's order). */
export function extraKeys(sequence: Sequence, index: number): ExtraKey[] {
  const keys: ExtraKey[] = [];
  if (sequence.lora !== "") keys.push({ kind: "lora", value: sequence.lora });
  if (sequence.salt !== "" && index === 0) keys.push({ kind: "cache_salt", value: sequence.salt });
  return keys;
}
