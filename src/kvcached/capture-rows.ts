import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { CgnError } from "../core/errors.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { batchFromJson } from "./capture-writer.ts";
import type { RedactedPrompt } from "./redact-blocks.ts";

/** One KV event message of a capture. `t`: arrival, seconds since the epoch. */
export interface FrameRow {
  readonly t: number;
  readonly topic: string;
  readonly seq: number;
  /** The message's payload; undefined in a capture without content, which has the redacted `batch` instead. */
  readonly payload: Uint8Array | undefined;
  readonly batch: KvEventBatch | undefined;
}

/** A row of `requests.jsonl`. */
export type RequestRow =
  /** The engine was (re)started; its kind and `argv`, where known. */
  | {
      readonly t: number;
      readonly kind: "phase";
      readonly phase: string;
      readonly engine: string | undefined;
      readonly argv: readonly string[];
    }
  | { readonly t: number; readonly kind: "begin"; readonly n: number }
  | {
      readonly t: number;
      readonly kind: "chat";
      readonly n: number | undefined;
      /** Undefined in a capture without content, which has the redacted `prompt` instead. */
      readonly body: Readonly<Record<string, unknown>> | undefined;
      readonly prompt: RedactedPrompt | undefined;
      /** What the engine reported; undefined when it reported none. */
      readonly cachedTokens: number | undefined;
      /** Text of the answer, and the prompt's token ids, where they were recorded. */
      readonly answer: string | undefined;
      readonly promptIds: readonly number[] | undefined;
    }
  | { readonly t: number; readonly kind: "reset_prefix_cache" }
  | { readonly t: number; readonly kind: "other" };

/** A capture folder, read whole. */
export interface Capture {
  readonly frames: readonly FrameRow[];
  readonly requests: readonly RequestRow[];
}

const MAX_FILE_BYTES = 2 ** 30;

/**
 * Read `frames.jsonl` and `requests.jsonl` of a capture, or what `gzip` made of them.
 * @throws CgnError CAPTURE_INVALID naming file and line
 */
export async function readCapture(dir: string): Promise<Capture> {
  const frames = await readFrames(join(dir, "frames.jsonl"));
  const requests = (await readLines(join(dir, "requests.jsonl"))).map((row) => requestOf(row.value, row.at));
  return { frames, requests };
}

/**
 * Read one engine's messages, or what `gzip` made of them (`path` without its `.gz`).
 * @throws CgnError CAPTURE_INVALID naming file and line
 */
export async function readFrames(path: string): Promise<readonly FrameRow[]> {
  return (await readLines(path)).map((row) => frameOf(row.value, row.at));
}

/** Are there requests to compare with? */
export async function hasRequests(dir: string): Promise<boolean> {
  const there = (path: string) =>
    stat(path).then(
      () => true,
      () => false,
    );
  const path = join(dir, "requests.jsonl");
  return (await there(path)) || (await there(`${path}.gz`));
}

type Json = Readonly<Record<string, unknown>>;

async function readLines(path: string): Promise<{ readonly value: Json; readonly at: string }[]> {
  const packed = await stat(`${path}.gz`).catch(() => undefined);
  const found = packed ?? (await stat(path).catch(() => undefined));
  if (found === undefined) throw invalid(path, "there is no such file", "Name a folder that `cgn kv capture` made");
  if (found.size > MAX_FILE_BYTES)
    throw invalid(path, `it has ${found.size} bytes`, `At most ${MAX_FILE_BYTES} are read`);
  const text = packed === undefined ? await readFile(path, "utf8") : await unpacked(`${path}.gz`);
  const rows: { value: Json; at: string }[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    rows.push({ value: parseLine(line, `${path}:${i + 1}`), at: `${path}:${i + 1}` });
  }
  return rows;
}

async function unpacked(path: string): Promise<string> {
  try {
    return (await promisify(gunzip)(await readFile(path), { maxOutputLength: MAX_FILE_BYTES })).toString();
  } catch (cause) {
    throw invalid(path, "it cannot be unpacked", "Capture again", cause);
  }
}

function parseLine(line: string, at: string): Json {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw invalid(at, "it is no JSON", "Capture again", cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(at, "it is no object", "Capture again");
  return value as Json;
}

function frameOf(row: Json, at: string): FrameRow {
  const { t, topic, seq, payload_b64: payload } = row;
  if (typeof t !== "number") throw invalid(at, "t is no number", "It is the arrival in seconds since the epoch");
  if (typeof seq !== "number" || !Number.isSafeInteger(seq) || seq < 0)
    throw invalid(at, "seq is no count", "It is the message's number");
  const common = { t, topic: typeof topic === "string" ? topic : "", seq };
  if (typeof payload === "string") return { ...common, payload: Buffer.from(payload, "base64"), batch: undefined };
  try {
    return { ...common, payload: undefined, batch: batchFromJson(row["batch"]) };
  } catch (cause) {
    throw invalid(
      at,
      "it has neither payload_b64 nor a readable batch",
      "It is the message's payload in base64",
      cause,
    );
  }
}

function requestOf(row: Json, at: string): RequestRow {
  const { t, kind, n } = row;
  if (typeof t !== "number") throw invalid(at, "t is no number", "It is a time in seconds since the epoch");
  if (kind === "begin") {
    if (typeof n !== "number") throw invalid(at, "n is missing", "It is the request's number");
    return { t, kind, n };
  }
  if (kind === "phase") {
    const argv = Array.isArray(row["argv"]) ? row["argv"].map(String) : [];
    const engine = typeof row["engine"] === "string" ? row["engine"] : undefined;
    return { t, kind, phase: String(row["phase"]), engine, argv };
  }
  if (kind === "reset_prefix_cache") return { t, kind };
  if (kind !== "chat") return { t, kind: "other" };
  const body = asObject(row["body"]);
  const prompt = asObject(row["prompt"]) as RedactedPrompt | undefined;
  if (prompt !== undefined && !Array.isArray(prompt.blocks)) throw invalid(at, "prompt has no blocks", "Capture again");
  const number = typeof n === "number" ? n : undefined;
  // A chat that could not be rendered proves nothing.
  const cachedTokens = body === undefined && prompt === undefined ? undefined : cachedOf(row["usage"]);
  const ids = row["prompt_token_ids"];
  return {
    ...{ t, kind, n: number, body, prompt, cachedTokens },
    answer: typeof row["text"] === "string" ? row["text"] : undefined,
    promptIds: Array.isArray(ids) && ids.every((id) => typeof id === "number") ? ids : undefined,
  };
}

const asObject = (value: unknown): Json | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;

function cachedOf(usage: unknown): number | undefined {
  const details = (usage as Json | null | undefined)?.["prompt_tokens_details"];
  const cached = (details as Json | null | undefined)?.["cached_tokens"];
  return typeof cached === "number" ? cached : undefined;
}

function invalid(at: string, is: string, right: string, cause?: unknown): CgnError {
  return new CgnError("CAPTURE_INVALID", `Cannot read capture ${at}: ${is}. ${right}`, { at }, { cause }) as CgnError;
}
