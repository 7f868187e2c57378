import { type TraceFormat, type TraceRow, tokenCount } from "./trace.ts";

/** Tokens a block of the Mooncake traces (kvcache-ai/Mooncake, FAST25-release/traces: "each hash_id is a block of 512 tokens"). */
const MOONCAKE_BLOCK_TOKENS = 512;

/** JSON lines: `timestamp` in ms, `input_length`, `output_length`, `hash_ids`, one for each 512 tokens with the last one part-filled. */
function mooncake(blockTokens: number): TraceFormat {
  return {
    name: "mooncake",
    blockTokens,
    read(line) {
      const row = jsonRow(line);
      // The first line of a trace that `cgn trace export` wrote.
      if (row["format"] === "cgn-trace") return undefined;
      const promptTokens = tokenCount(row["input_length"], "input_length");
      const ids = row["hash_ids"];
      if (ids !== undefined && !isNames(ids)) throw new TypeError('"hash_ids" is not a list of numbers or texts');
      const at = Number(row["timestamp"]);
      if (row["timestamp"] === undefined || !Number.isFinite(at)) throw new TypeError('"timestamp" is not a number');
      return { at, promptTokens, outputTokens: tokenCount(row["output_length"], "output_length"), blocks: ids };
    },
  };
}

/**
 * CSV with a header, columns by name.
 * Azure LLM inference traces (Azure/AzurePublicDataset, 2023 and 2024): TIMESTAMP (date), ContextTokens, GeneratedTokens.
 * BurstGPT (HPMLL/BurstGPT): Timestamp (seconds), …, Request tokens, Response tokens, …; a response of 0 tokens is a request that failed.
 */
function csv(
  name: string,
  columns: { readonly at: string; readonly input: string; readonly output: string },
): (header: string) => TraceFormat {
  return (header) => {
    const names = cells(header).map((cell) => cell.toLowerCase());
    const [at, input, output] = [columns.at, columns.input, columns.output].map((column) => names.indexOf(column));
    return {
      name,
      blockTokens: undefined,
      read(line): TraceRow | undefined {
        const row = cells(line);
        const time = readTime(row[at!]);
        const outputTokens = Number(row[output!]);
        if (outputTokens === 0) return undefined;
        return {
          at: time,
          promptTokens: tokenCount(row[input!], columns.input),
          outputTokens: tokenCount(row[output!], columns.output),
          blocks: undefined,
        };
      },
    };
  };
}

const AZURE = { at: "timestamp", input: "contexttokens", output: "generatedtokens" } as const;
const BURST_GPT = { at: "timestamp", input: "request tokens", output: "response tokens" } as const;

/** What a file's first line shows. `header`: that line is no request. */
export interface Detected {
  readonly format: TraceFormat;
  readonly header: boolean;
}

/** Tell a trace's format by its first line; undefined: none that is known. */
export function detectFormat(firstLine: string): Detected | undefined {
  const line = firstLine.replace(/^\uFEFF/, "");
  if (line.trimStart().startsWith("{")) {
    const blockTokens = headerBlockTokens(line);
    return { format: mooncake(blockTokens ?? MOONCAKE_BLOCK_TOKENS), header: blockTokens !== undefined };
  }
  const names = cells(line).map((cell) => cell.toLowerCase());
  const has = (columns: object): boolean => Object.values(columns).every((column) => names.includes(column));
  if (has(AZURE)) return { format: csv("azure", AZURE)(line), header: true };
  if (has(BURST_GPT)) return { format: csv("burstgpt", BURST_GPT)(line), header: true };
  return undefined;
}

/** Our own traces say first how many tokens a block has. */
function headerBlockTokens(line: string): number | undefined {
  try {
    const row = jsonRow(line);
    return row["format"] === "cgn-trace" && Number(row["block_tokens"]) >= 1 ? Number(row["block_tokens"]) : undefined;
  } catch {
    return undefined;
  }
}

function jsonRow(line: string): Readonly<Record<string, unknown>> {
  let row: unknown;
  try {
    row = JSON.parse(line);
  } catch {
    throw new TypeError("it is no JSON");
  }
  if (typeof row !== "object" || row === null) throw new TypeError("it is no JSON object");
  return row as Record<string, unknown>;
}

function isNames(value: unknown): value is (number | string)[] {
  return (
    Array.isArray(value) &&
    value.every((id) => typeof id === "string" || (typeof id === "number" && Number.isFinite(id)))
  );
}

function cells(line: string): string[] {
  return line
    .replace(/\r$/, "")
    .split(",")
    .map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
}

/** Seconds, or a date with up to seven digits behind the second, as UTC. In milliseconds. */
function readTime(text: string | undefined): number {
  const seconds = Number(text);
  if (text !== undefined && text !== "" && Number.isFinite(seconds)) return seconds * 1000;
  const [, day, time, digits = "0"] = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?/.exec(text ?? "") ?? [];
  const at = day === undefined ? Number.NaN : Date.parse(`${day}T${time}Z`) + Number(digits) * 1000;
  if (!Number.isFinite(at)) throw new TypeError(`"${text ?? ""}" is neither seconds nor a date`);
  return at;
}
