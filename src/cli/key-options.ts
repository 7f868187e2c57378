import { KEY_FIELDS, parseKeyLines } from "../access/key-lines.ts";
import { CgnError } from "../core/errors.ts";
import type { Option, Values } from "./command.ts";

/** What a key may be given, as options. */
export const KEY_OPTIONS = {
  name: { type: "string", value: "NAME", about: "name in metrics, usage and logs" },
  scopes: { type: "string", value: "LIST", about: "what it opens: inference, admin, metrics (default inference)" },
  models: {
    type: "string",
    value: "GLOBS",
    about: "models that it may ask, for example 'qwen*,gpt-oss-?0b' (default all)",
  },
  rps: { type: "number", value: "N", about: "requests a second", min: 0.001, max: 1e6 },
  rpm: { type: "number", value: "N", about: "requests a minute", whole: true, min: 1, max: 1e9 },
  tpm: { type: "number", value: "N", about: "prompt and generated tokens a minute", whole: true, min: 1, max: 1e12 },
  concurrent: {
    type: "number",
    value: "N",
    about: "requests in flight, on each router",
    whole: true,
    min: 1,
    max: 1e6,
  },
  "max-prompt-tokens": { type: "number", value: "N", about: "longest prompt", whole: true, min: 1, max: 1e9 },
  priority: {
    type: "number",
    value: "N",
    about: "highest x-cgn-priority that it may ask for (default 0)",
    whole: true,
    min: -10,
    max: 10,
  },
  expires: { type: "string", value: "DATE", about: "until when it counts, for example 2027-01-31" },
} as const satisfies Record<string, Option>;

/**
 * A line for a keys file, checked by the reader of such files.
 * @throws CgnError BAD_INVOCATION
 */
export function keyLine(hash: string, options: Values): string {
  const fields = KEY_FIELDS.flatMap((field) => {
    const value = options[field.replace(/_(\w)/g, (_all, letter: string) => letter.toUpperCase())];
    if (value === undefined) return [];
    const text = String(value);
    if (/["\r\n]/.test(text)) throw bad(`--${field} has a quote or a line end`);
    return [`${field}=${/\s/.test(text) ? `"${text}"` : text}`];
  });
  const line = [hash, ...fields].join(" ");
  const problem = parseKeyLines(line).problems[0]?.problem;
  if (problem !== undefined) throw bad(problem);
  return line;
}

function bad(is: string): CgnError {
  return new CgnError("BAD_INVOCATION", `Cannot make a key: ${is}`, {}) as CgnError;
}
