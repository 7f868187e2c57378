import type { LogFields } from "../core/log.ts";

/** Field names whose value is somebody's secret or somebody's words. `promptTokens` and the like stay. */
const HIDDEN_KEY =
  /^(prompt|messages?_?content|content|messages|body|answer|input|text|authorization|cookie|.*(secret|passw(or)?d|api[-_]?key|access[-_]?token|hf[-_]?token|private[-_]?key))$/i;

/** Keys of the common shapes, wherever they stand in a text: our own, OpenAI's, Hugging Face's, bearer headers, URL passwords. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\bcgn-[0-9a-f]{32}\b/g, "cgn-[hidden]"],
  [/\bsk-[\w-]{16,}/g, "sk-[hidden]"],
  [/\bhf_\w{16,}/g, "hf_[hidden]"],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, "$1 [hidden]"],
  [/(:\/\/[^/\s:@]*):[^@\s/]+@/g, "$1:[hidden]@"],
  [/(--(?:api-key|hf-token|token|password)[= ])\S+/g, "$1[hidden]"],
];

/** Longest string in one log field, in UTF-16 units; a log tail of an engine fits. */
const MAX_TEXT = 4_000;
const MAX_DEPTH = 4;

/** Replace what looks like a key by `[hidden]`, and cut what is too long for a log line. */
export function redactText(text: string): string {
  let clean = text;
  for (const [pattern, by] of SECRETS) clean = clean.replace(pattern, by);
  return clean.length > MAX_TEXT ? `${clean.slice(0, MAX_TEXT)}… (${clean.length - MAX_TEXT} more)` : clean;
}

/** A copy of the fields that is safe to write: hidden keys, redacted texts, errors as data, bounded depth. */
export function redactFields(fields: LogFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, HIDDEN_KEY.test(key) ? "[hidden]" : redactValue(value, 0)]),
  );
}

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return errorFacts(value, depth);
  if (depth >= MAX_DEPTH) return "[deeper]";
  if (Array.isArray(value)) return value.slice(0, 50).map((item) => redactValue(item, depth + 1));
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      HIDDEN_KEY.test(key) ? "[hidden]" : redactValue(inner, depth + 1),
    ]),
  );
}

function errorFacts(error: Error, depth: number): unknown {
  const code = "code" in error ? String(error.code) : undefined;
  const cause = error.cause !== undefined && depth < MAX_DEPTH ? redactValue(error.cause, depth + 1) : undefined;
  return {
    message: redactText(error.message),
    ...(code === undefined ? {} : { code }),
    ...(cause === undefined ? {} : { cause }),
    // A mistake of ours needs its place; a mistake of a user's or an engine's does not.
    ...(code === undefined || code === "BUG" ? { stack: redactText(error.stack ?? "") } : {}),
  };
}
