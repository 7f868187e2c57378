import type { BlockKey } from "../model/request.ts";

/** One request of a trace. */
export interface TraceRequest {
  /** Milliseconds since the trace's start. */
  readonly at: number;
  /** At least 1. */
  readonly promptTokens: number;
  /** At least 1. */
  readonly outputTokens: number;
  /**
   * One key for each block of the prompt, the last one part-filled: `ceil(promptTokens / blockTokens)` of them. Equal keys mean equal
   * prefixes. Small whole numbers, close together, so that sets of them can be bits.
   */
  readonly blocks: readonly BlockKey[];
}

/** What a line of a trace says, before keys are made small and times are counted from the start. */
export interface TraceRow {
  /** Milliseconds, from any origin. */
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Names of the prompt's blocks from the root on; undefined: the format says nothing of what prompts share. */
  readonly blocks: readonly (number | string)[] | undefined;
}

/** A way to write traces down. */
export interface TraceFormat {
  readonly name: string;
  /** Tokens a block; undefined: the format has no blocks. */
  readonly blockTokens: number | undefined;
  /**
   * Read one line.
   * @returns undefined for a line that is no request (a header, a request that failed)
   * @throws TypeError with what is wrong, for a line that is none of this format
   */
  read(line: string): TraceRow | undefined;
}

/** Far beyond any model's context; a mistaken column must not fill the memory with blocks. */
const MOST_TOKENS = 100_000_000;

/** A count of tokens. @throws TypeError */
export function tokenCount(value: unknown, name: string): number {
  const count = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof count === "number" && count > MOST_TOKENS)
    throw new TypeError(`"${name}" is ${count}; at most ${MOST_TOKENS} tokens would be right`);
  if (typeof count === "number" && Number.isFinite(count) && count >= 0) return Math.max(1, Math.round(count));
  throw new TypeError(`"${name}" is ${JSON.stringify(value) ?? "missing"}, not a count of tokens`);
}
