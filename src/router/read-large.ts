import { setImmediate as nextTurn } from "node:timers/promises";
import { type Member, MemberScanner, NotAnObject } from "./member-scanner.ts";

/** Bodies up to this are parsed at once: some milliseconds at worst. */
export const PARSE_BYTES = 256 * 1024;
/** Larger bodies are not built and their prompts not matched: the request is routed by load. About 500,000 tokens of text. */
export const MATCH_BYTES = 2 * 1024 * 1024;

/** Parts (`MemberScanner.parts`) of a body that is built: to build and render 50,000 takes some 20 ms. */
const MAX_PARTS = 50_000;
const MAX_DEPTH = 500;
/** Members at the top of a large body. Clients send a few dozen. */
const MAX_MEMBERS = 4_096;
/** Longest value that is built from a body that is not. */
const MAX_VALUE_BYTES = 64 * 1024;
/** Bytes that are looked at before other requests have their turn: about a millisecond. */
const STEP_BYTES = 256 * 1024;

/** Top-level members that the router reads. */
const READ_MEMBERS = new Set([
  "model",
  "stream",
  "stream_options",
  "cache_salt",
  "kv_transfer_params",
  "vllm_xargs",
  "prompt_logprobs",
  "echo",
  "logprobs",
  "cache_prompt",
]);

export interface LargeBody {
  /** What the body says; only `READ_MEMBERS` where `unmatched` is set. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly members: readonly Member[];
  /** Why the whole body was not built. */
  readonly unmatched: string | undefined;
}

/**
 * Read a body above `PARSE_BYTES` without stopping other requests: look for its members in steps, and build the whole only
 * where that is cheap. Of members with one name the last counts, as in `JSON.parse()` and in engines.
 * @throws NotAnObject; SyntaxError for a value that is no JSON
 */
export async function readLarge(body: Buffer): Promise<LargeBody> {
  const scanner = new MemberScanner(body);
  while (!scanner.step(STEP_BYTES)) {
    if (scanner.members.length > MAX_MEMBERS) break;
    await nextTurn();
  }
  const { members, parts, depth } = scanner;
  if (members.length > MAX_MEMBERS) {
    const is = `the body has more than ${MAX_MEMBERS} members at its top`;
    throw new NotAnObject(is, "Leave out those that no API knows");
  }
  const unmatched = tooLarge(body.length, parts, depth);
  const json =
    unmatched === undefined
      ? (JSON.parse(body.toString("utf8")) as Readonly<Record<string, unknown>>)
      : readSome(body, members);
  return { json, members, unmatched };
}

function tooLarge(bytes: number, parts: number, depth: number): string | undefined {
  if (bytes > MATCH_BYTES) return `the body has more than ${MATCH_BYTES} bytes`;
  if (parts > MAX_PARTS) return `the body has more than ${MAX_PARTS} objects, lists, members and items`;
  return depth > MAX_DEPTH ? `the body is nested more than ${MAX_DEPTH} deep` : undefined;
}

function readSome(body: Buffer, members: readonly Member[]): Readonly<Record<string, unknown>> {
  const json: Record<string, unknown> = {};
  for (const { key, valueStart, end } of members) {
    if (!READ_MEMBERS.has(key)) continue;
    if (end - valueStart > MAX_VALUE_BYTES)
      throw new NotAnObject(`"${key}" has more than ${MAX_VALUE_BYTES} bytes`, "Send a smaller one");
    json[key] = JSON.parse(body.toString("utf8", valueStart, end));
  }
  return json;
}
