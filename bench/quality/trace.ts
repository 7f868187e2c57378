import { readFileSync } from "node:fs";

/** One request of the workload. Tokens are words of five letters. */
export interface QualityRequest {
  readonly id: string;
  /** Milliseconds from the start. */
  readonly at: number;
  readonly text: string;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

export interface WorkloadOptions {
  readonly file: string;
  readonly requests: number;
  /** Lengths are divided by it. */
  readonly scale: number;
  /** Arrival times are divided by it. */
  readonly compress: number;
  /** The trace tells times in steps of 3 s; true spreads the requests of a step over it. */
  readonly spread: boolean;
  /** Share of requests that begin with one and the same prefix instead of their own blocks. */
  readonly hotShare: number;
}

interface Row {
  readonly timestamp: number;
  readonly input_length: number;
  readonly output_length: number;
  readonly hash_ids: readonly number[];
}

/** Tokens that one of the trace's blocks stands for. */
const TRACE_BLOCK = 512;
const STEP_MS = 3000;
/** Of the hot prefix, in the trace's blocks: a system prompt with tools. */
const HOT_BLOCKS = 8;
const HOT_ID = 1_000_000_000;
/** Bytes of a token: five letters and a space. */
export const TOKEN_BYTES = 6;

/** The first requests of a Mooncake trace as text: equal blocks are equal words. */
export function loadWorkload(o: WorkloadOptions): QualityRequest[] {
  const rows = readFileSync(o.file, "utf8")
    .trimEnd()
    .split("\n", o.requests)
    .map((line) => JSON.parse(line) as Row);
  const times = o.spread ? spreadTimes(rows) : rows.map(({ timestamp }) => timestamp);
  const words = new WordBlocks(TRACE_BLOCK / o.scale);
  return rows.map((row, i) => {
    const length = Math.max(1, Math.round(row.input_length / o.scale));
    // Evenly strewn, not drawn: each run is the same.
    const isHot = Math.floor((i + 1) * o.hotShare) > Math.floor(i * o.hotShare);
    const ids = isHot ? row.hash_ids.map((id, k) => (k < HOT_BLOCKS ? HOT_ID + k : id)) : row.hash_ids;
    const text = words.text(ids, length);
    return {
      id: `r${i}`,
      at: (times[i]! - times[0]!) / o.compress,
      text,
      promptTokens: (text.length + 1) / TOKEN_BYTES,
      outputTokens: Math.max(1, Math.round(row.output_length / o.scale)),
    };
  });
}

function spreadTimes(rows: readonly Row[]): number[] {
  const times: number[] = [];
  for (let i = 0; i < rows.length; ) {
    const base = rows[i]!.timestamp;
    let end = i;
    while (end < rows.length && rows[end]!.timestamp === base) end++;
    for (let k = i; k < end; k++) times.push(base + (STEP_MS * (k - i)) / (end - i));
    i = end;
  }
  return times;
}

/** The words of the trace's blocks. */
class WordBlocks {
  readonly perBlock: number;
  readonly #texts = new Map<number, string>();

  constructor(perBlock: number) {
    this.perBlock = perBlock;
  }

  /** At most `length` words. */
  text(ids: readonly number[], length: number): string {
    const parts: string[] = [];
    let left = length;
    for (const id of ids) {
      if (left <= 0) break;
      const count = Math.min(this.perBlock, left);
      parts.push(this.#block(id).slice(0, count * TOKEN_BYTES - 1));
      left -= count;
    }
    return parts.join(" ");
  }

  #block(id: number): string {
    let text = this.#texts.get(id);
    if (text === undefined) {
      text = Array.from({ length: this.perBlock }, (_, k) => word(id, k)).join(" ");
      this.#texts.set(id, text);
    }
    return text;
  }
}

/** Five letters, the same for the same block and place. */
function word(id: number, place: number): string {
  let x = Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(place + 1, 0x85ebca6b);
  x ^= x >>> 15;
  x = Math.imul(x, 0xc2b2ae35);
  x ^= x >>> 13;
  x >>>= 0;
  let out = "";
  for (let i = 0; i < TOKEN_BYTES - 1; i++) {
    out += String.fromCharCode(97 + (x % 26));
    x = Math.floor(x / 26);
  }
  return out;
}

/** A word as a token id. */
function tokenId(text: string, from: number, to: number): number {
  let h = 2166136261;
  for (let i = from; i < to; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h >>> 0) % 150_000;
}

/** Words as token ids. */
export function tokenize(text: string): number[] {
  const ids: number[] = [];
  let from = 0;
  while (from < text.length) {
    let to = text.indexOf(" ", from);
    if (to < 0) to = text.length;
    if (to > from) ids.push(tokenId(text, from, to));
    from = to + 1;
  }
  return ids;
}

/** Names of the whole blocks of a prompt, 53 bits, each with all before it. */
export function blockNames(tokens: readonly number[], blockTokens: number): number[] {
  const names: number[] = [];
  let a = 0x9e3779b9;
  let b = 0x85ebca6b;
  for (let at = 0; at + blockTokens <= tokens.length; at += blockTokens) {
    for (let k = at; k < at + blockTokens; k++) {
      a = Math.imul(a ^ tokens[k]!, 0x85ebca6b);
      a ^= a >>> 13;
      b = Math.imul(b ^ tokens[k]!, 0xc2b2ae35);
      b ^= b >>> 16;
    }
    names.push(((a >>> 0) & 0x1fffff) * 2 ** 32 + (b >>> 0));
  }
  return names;
}
