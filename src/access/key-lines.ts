import { type ChosenHash, parseChosenHash } from "./api-key.ts";
import { SCOPES, type Scope, type SubjectLimits } from "./subject.ts";

/** One key as a file has it: never the key itself. */
export interface KeyEntry {
  /** SHA-256 in lower-case hex, or how a chosen key was derived. */
  readonly hash: string | ChosenHash;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Undefined: all. */
  readonly models?: readonly string[];
  readonly priority?: number;
  readonly limits: SubjectLimits;
  /** Milliseconds since the epoch. */
  readonly expiresAtMs?: number;
}

/** What is wrong in a line; lines count from 1. */
export interface KeyProblem {
  readonly line: number;
  readonly problem: string;
}

/** Keys that people chose are tried one after the other, at 60 ms each. */
export const MAX_CHOSEN_KEYS = 16;

const NUMBERS = {
  rps: "rps",
  rpm: "rpm",
  tpm: "tpm",
  concurrent: "concurrent",
  max_prompt_tokens: "maxPromptTokens",
} as const satisfies Record<string, keyof SubjectLimits>;

/** Names of the fields behind a hash. */
export const KEY_FIELDS = ["name", "scopes", "models", "priority", "expires", ...Object.keys(NUMBERS)] as const;

/**
 * Read a keys file: one `HASH [name=… scopes=… models=… rps=… rpm=… tpm=… concurrent=… max_prompt_tokens=… priority=…
 * expires=…]` a line; `#` begins a comment, quotes hold blanks together. A bare hash is a full inference key.
 *
 * A field that is not understood makes the whole line a problem: a limit with a slip in its name must not be no limit.
 */
export function parseKeyLines(text: string): { readonly entries: KeyEntry[]; readonly problems: KeyProblem[] } {
  const entries: KeyEntry[] = [];
  const problems: KeyProblem[] = [];
  const seen = new Map<string, number>();
  let chosen = 0;
  for (const [i, raw] of text.split(/\r?\n/).entries()) {
    const words = splitWords(raw);
    if (words.length === 0) continue;
    const line = i + 1;
    const read = readKey(words);
    if (typeof read === "string") {
      problems.push({ line, problem: read });
      continue;
    }
    const first = seen.get(words[0]!.toLowerCase());
    if (first !== undefined) problems.push({ line, problem: `this hash stands on line ${first} already` });
    else if (typeof read.hash !== "string" && ++chosen > MAX_CHOSEN_KEYS)
      problems.push({ line, problem: `there are more than ${MAX_CHOSEN_KEYS} keys that people chose` });
    else entries.push(read);
    seen.set(words[0]!.toLowerCase(), line);
  }
  return { entries, problems };
}

/** Words, with `"…"` holding blanks together; a `#` at the start of a word begins a comment. */
function splitWords(line: string): string[] {
  const words: string[] = [];
  for (const [word] of line.replace(/^\uFEFF/, "").matchAll(/(?:"[^"]*"|[^\s"])+/g)) {
    if (word.startsWith("#")) break;
    words.push(word.replaceAll('"', ""));
  }
  return words;
}

/** @returns what is wrong, as a text */
function readKey([hash = "", ...fields]: readonly string[]): KeyEntry | string {
  const found = /^(?:sha256:)?([0-9a-f]{64})$/i.exec(hash)?.[1]?.toLowerCase() ?? parseChosenHash(hash);
  if (found === undefined) {
    if (/^(cgn|sk)-/.test(hash))
      return "a key itself stands here, not its hash. Replace it by what cgn key hash prints";
    return "the first word is neither 64 hex digits (SHA-256) nor a hash of cgn key hash --chosen";
  }
  const values = new Map<string, string>();
  for (const field of fields) {
    const cut = field.indexOf("=");
    const name = field.slice(0, Math.max(0, cut));
    if (!(KEY_FIELDS as readonly string[]).includes(name))
      return `"${field}" is no field. ${KEY_FIELDS.join(", ")} are`;
    if (values.has(name)) return `${name} stands here twice`;
    values.set(name, field.slice(cut + 1));
  }
  return keyOf(found, values);
}

/** A key from its hash and its fields by name. @returns what is wrong, as a text */
export function keyOf(hash: string | ChosenHash, values: ReadonlyMap<string, string>): KeyEntry | string {
  const limits: { -readonly [K in keyof SubjectLimits]: number } = {};
  for (const [field, to] of Object.entries(NUMBERS)) {
    const text = values.get(field);
    if (text === undefined) continue;
    const number = Number(text);
    if (!(number > 0) || !Number.isFinite(number) || (field !== "rps" && !Number.isInteger(number)))
      return `${field}=${text} is no ${field === "rps" ? "number" : "whole number"} above 0`;
    limits[to] = number;
  }
  const scopes = list(values.get("scopes")) ?? ["inference"];
  const strange = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (strange !== undefined) return `"${strange}" is no scope. ${SCOPES.join(", ")} are`;
  const priority = values.get("priority") === undefined ? undefined : Number(values.get("priority"));
  if (priority !== undefined && !Number.isSafeInteger(priority)) return "priority is no whole number";
  const expires = values.get("expires");
  const expiresAtMs = expires === undefined ? undefined : Date.parse(expires);
  if (Number.isNaN(expiresAtMs))
    return `expires=${expires} is no date. Write one such as 2027-01-31 or 2027-01-31T12:00Z`;
  const models = list(values.get("models"));
  const name = values.get("name") ?? (typeof hash === "string" ? `key-${hash.slice(0, 8)}` : "key");
  if (!/^[^\p{Cc}]{1,128}$/u.test(name)) return "the name is empty, has control characters or more than 128 of any";
  return {
    hash,
    name,
    scopes: scopes as readonly Scope[],
    limits,
    ...(models === undefined ? {} : { models }),
    ...(priority === undefined ? {} : { priority }),
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  };
}

function list(text: string | undefined): string[] | undefined {
  const parts = text
    ?.split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  return parts;
}
