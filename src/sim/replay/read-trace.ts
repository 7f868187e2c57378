import { createReadStream, statSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { CgnError } from "../../core/errors.ts";
import { KeyTable } from "./key-table.ts";
import { SharedPrefixes } from "./shared-prefixes.ts";
import type { TraceFormat, TraceRequest, TraceRow } from "./trace.ts";
import { detectFormat } from "./trace-formats.ts";

/** Tokens a block for traces without blocks: what vLLM uses. */
const DEFAULT_BLOCK_TOKENS = 16;
/** Requests are handed on in lists of so many: awaiting each would cost more than reading it. */
const BATCH = 512;

export interface TraceOptions {
  readonly file: string;
  /** Stop after so many requests. */
  readonly limit?: number | undefined;
  /** Pass over so many of each round first. */
  readonly skip?: number | undefined;
  /** Play the trace so often, one after another, with new blocks each time. */
  readonly repeat: number;
  /** Divides the times between requests. */
  readonly speed: number;
  /** For traces without blocks: see `SharedPrefixes`. */
  readonly prefixShare: number;
  readonly seed: number;
  /** For traces without blocks. Others have their own. */
  readonly blockTokens?: number | undefined;
}

/** A trace that can be read, several times if need be. */
export interface Trace {
  readonly name: string;
  readonly format: string;
  readonly blockTokens: number;
  /** False: what prompts share is not known, or made up. */
  readonly knowsBlocks: boolean;
  /** What must be said with every figure. */
  readonly notes: readonly string[];
  /** Lists of requests in the order of their times. `onShare` hears how much of the trace was read, from 0 to 1. */
  requests(onShare?: (share: number) => void): AsyncGenerator<readonly TraceRequest[]>;
}

/**
 * Open a trace; its first line says of which format it is.
 * @throws CgnError TRACE_INVALID for a file that cannot be read or whose format is not known
 */
export async function openTrace(options: TraceOptions): Promise<Trace> {
  const first = await firstLine(options.file);
  const detected = detectFormat(first);
  if (detected === undefined) {
    const know =
      "JSON lines with timestamp, input_length, output_length and hash_ids (Mooncake, cgn trace export), or the CSV of Azure's LLM inference traces or of BurstGPT";
    throw invalid(options.file, `its first line is of no format that is known. Known are ${know}`);
  }
  const { format } = detected;
  const knowsBlocks = format.blockTokens !== undefined;
  return {
    name: basename(options.file),
    format: format.name,
    blockTokens: format.blockTokens ?? options.blockTokens ?? DEFAULT_BLOCK_TOKENS,
    knowsBlocks,
    notes: knowsBlocks ? [] : [sharedNote(options.prefixShare)],
    requests: (onShare) => readAll(options, format, detected.header, onShare),
  };
}

function sharedNote(share: number): string {
  return share === 0
    ? "The trace does not say what prompts share: they are taken to share nothing, so hit rates are a lower bound (--prefix-share assumes some)"
    : `The trace does not say what prompts share: ${Math.round(share * 100)} % of each prompt is assumed to be an earlier one's start`;
}

async function* readAll(
  options: TraceOptions,
  format: TraceFormat,
  header: boolean,
  onShare?: (share: number) => void,
): AsyncGenerator<readonly TraceRequest[]> {
  const table = new KeyTable();
  const shared = new SharedPrefixes(options.prefixShare, options.seed, table);
  const blockTokens = format.blockTokens ?? options.blockTokens ?? DEFAULT_BLOCK_TOKENS;
  const size = Math.max(1, statSync(options.file).size);
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  let roundStart = 0;
  for (let round = 0; round < options.repeat && left > 0; round++) {
    table.startRound(round);
    let origin: number | undefined;
    let last = 0;
    let count = 0;
    let batch: TraceRequest[] = [];
    for await (const { row, bytes } of rows(options.file, format, header, options.skip ?? 0)) {
      origin ??= row.at;
      // A clock that was set back must not turn time around.
      last = Math.max(last, (row.at - origin) / options.speed);
      count++;
      batch.push(toRequest(options.file, row, roundStart + last, blockTokens, table, shared));
      const ended = --left <= 0;
      if (batch.length < BATCH && !ended) continue;
      yield batch;
      batch = [];
      onShare?.(options.limit === undefined ? (round + bytes / size) / options.repeat : 1 - left / options.limit);
      if (ended) return;
    }
    if (batch.length > 0) yield batch;
    if (count === 0) {
      const behind = options.skip === undefined ? "" : ` behind the first ${options.skip}`;
      throw invalid(options.file, `it has no requests${behind} that were answered`);
    }
    // The next round begins one mean gap after this one's end.
    roundStart += last + (count > 1 ? last / (count - 1) : 0);
  }
}

function toRequest(
  file: string,
  row: TraceRow,
  at: number,
  blockTokens: number,
  table: KeyTable,
  shared: SharedPrefixes,
): TraceRequest {
  const { promptTokens, outputTokens } = row;
  const count = Math.ceil(promptTokens / blockTokens);
  if (row.blocks === undefined) return { at, promptTokens, outputTokens, blocks: shared.blocks(count) };
  if (row.blocks.length > count) {
    throw invalid(
      file,
      `a request of ${promptTokens} tokens has ${row.blocks.length} blocks of ${blockTokens}; at most ${count} would be right`,
    );
  }
  try {
    const blocks = table.keys(row.blocks);
    // A trace may leave the part-filled block out; the model wants a name for all whole ones.
    if (blocks.length < Math.floor(promptTokens / blockTokens))
      throw new TypeError(`it names ${blocks.length} blocks of ${count}`);
    return { at, promptTokens, outputTokens, blocks };
  } catch (e) {
    throw invalid(
      file,
      `a request of ${promptTokens} tokens cannot be read: ${e instanceof Error ? e.message : String(e)}`,
    );
  }
}

async function* rows(
  file: string,
  format: TraceFormat,
  header: boolean,
  skip: number,
): AsyncGenerator<{ row: TraceRow; bytes: number }> {
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  let bytes = 0;
  let passed = 0;
  try {
    for await (const line of lines) {
      number++;
      bytes += line.length + 1;
      if (line.trim() === "" || (number === 1 && header)) continue;
      const row = readLine(file, format, line, number);
      if (row !== undefined && ++passed > skip) yield { row, bytes };
    }
  } finally {
    lines.close();
  }
}

function readLine(file: string, format: TraceFormat, line: string, number: number): TraceRow | undefined {
  try {
    return format.read(line);
  } catch (e) {
    if (e instanceof TypeError) throw invalid(file, `line ${number} is wrong: ${e.message}`);
    throw e;
  }
}

async function firstLine(file: string): Promise<string> {
  try {
    const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
    for await (const line of lines) {
      lines.close();
      return line;
    }
  } catch (e) {
    throw invalid(file, whyUnreadable(e));
  }
  throw invalid(file, "it is empty");
}

function whyUnreadable(e: unknown): string {
  const code = e instanceof Error && "code" in e ? e.code : undefined;
  if (code === "ENOENT" || code === "ENOTDIR") return "there is no such file. Name a trace; cgn trace export makes one";
  if (code === "EISDIR") return "it is a folder. Name a file in it";
  if (code === "EACCES" || code === "EPERM") return "this user may not read it. Allow that, or copy it";
  return e instanceof Error ? e.message : String(e);
}

function invalid(file: string, is: string): CgnError {
  return new CgnError("TRACE_INVALID", `Cannot read the trace ${file}: ${is}`, { file });
}
