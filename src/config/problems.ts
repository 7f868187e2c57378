import { closest, distance } from "fastest-levenshtein";
import type { z } from "zod";
import { CgnError, type Problem } from "../core/errors.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import type { KeyMeta } from "./schema-fields.ts";
import type { KeyInfo } from "./schema-walk.ts";

/** Where a value came from. Lines and columns count from 1. */
export type Origin =
  | { readonly from: "default" }
  | {
      readonly from: "file";
      readonly file: string;
      readonly path: string;
      readonly line: number;
      readonly column: number;
    }
  | { readonly from: "environment"; readonly variable: string; readonly path: string }
  | { readonly from: "flag"; readonly flag: string; readonly path: string };

/** What is wrong, before its place is known. */
export interface Finding {
  readonly severity?: "error" | "warning";
  readonly problem: string;
  readonly remedy?: string;
  /** Where it has one of its own: `Problem.code`. */
  readonly code?: string;
}

/** Give a finding its place. What came from elsewhere than the file names that instead of the file. */
export function problemAt(path: KeyPath, origin: Origin | undefined, finding: Finding, file?: string): Problem {
  const base = {
    severity: finding.severity ?? "error",
    path: formatKeyPath(path),
    problem: finding.problem,
    ...(finding.remedy === undefined ? {} : { remedy: finding.remedy }),
    ...(finding.code === undefined ? {} : { code: finding.code }),
  };
  if (origin === undefined || origin.from === "default") return { ...base, ...(file === undefined ? {} : { file }) };
  if (origin.from === "file") {
    return { ...base, path: origin.path, file: origin.file, line: origin.line, column: origin.column };
  }
  return { ...base, path: origin.path, file: origin.from === "flag" ? origin.flag : origin.variable };
}

/** Print one problem on a line: `cgn.toml:4:14: error: engine.kind: "vlm" is …. Use …`. */
export function formatProblem(p: Problem): string {
  const place = [p.file, p.line, p.column].filter((part) => part !== undefined).join(":");
  const said = [p.path === "" ? p.problem : `${p.path}: ${p.problem}`, p.remedy].filter(Boolean).join(". ");
  return `${place === "" ? "" : `${place}: `}${p.severity}: ${said}${p.code === undefined ? "" : ` [${p.code}]`}`;
}

/**
 * All problems as one error. One problem is told in the message; several are counted there and stand in the details.
 * @param what the file, as a message names it
 */
export function problemsError(what: string, problems: readonly Problem[]): CgnError<"CONFIG_INVALID"> {
  const errors = problems.filter((p) => p.severity === "error");
  const only = errors.length === 1 ? errors[0] : undefined;
  const message =
    only === undefined
      ? `Cannot use ${what}: it has ${errors.length} problems. Mend each, then run "cgn check"`
      : singleMessage(what, only);
  return new CgnError("CONFIG_INVALID", message, { problems });
}

function singleMessage(what: string, p: Problem): string {
  const place = [p.file, p.line, p.column].filter((part) => part !== undefined).join(":");
  const object = [p.path === "" ? what : p.path, place === "" || p.path === "" ? "" : ` at ${place}`].join("");
  return `Cannot use ${object}: ${[p.problem, p.remedy].filter(Boolean).join(". ")}`;
}

/** File order, problems without a line last, errors before warnings; the same text at the same place is said once. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  const once = problems.filter((p) => {
    const text = formatProblem(p);
    return seen.has(text) ? false : seen.add(text);
  });
  const rank = (p: Problem): number =>
    p.line === undefined ? Number.MAX_SAFE_INTEGER : p.line * 10_000 + (p.column ?? 0);
  const isWarning = (p: Problem): number => (p.severity === "warning" ? 1 : 0);
  return once.sort((a, b) => rank(a) - rank(b) || isWarning(a) - isWarning(b));
}

/** The known name that was probably meant: at most a third of the letters away, at least 2. */
export function nearest(written: string, known: readonly string[]): string | undefined {
  if (known.length === 0) return undefined;
  // Letters of both cases count as one: names of variables are all upper case.
  const lower = known.map((name) => name.toLowerCase());
  const found = closest(written.toLowerCase(), lower);
  return distance(written.toLowerCase(), found) <= Math.max(2, Math.floor(found.length / 3))
    ? known[lower.indexOf(found)]
    : undefined;
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: "a text in quotes",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: 'a list such as ["a", "b"]',
  object: "a table",
  record: "a table",
};

/**
 * Turn zod's issue about `value` into words: what is, what would be right.
 * @param info of the key that the issue is about
 */
export function explainIssue(issue: z.core.$ZodIssue, value: unknown, info?: KeyInfo, key = ""): Finding {
  const special = issue.code === "invalid_type" ? byUnit(value, info?.meta ?? {}, key) : undefined;
  if (special !== undefined) return special;
  switch (issue.code) {
    case "invalid_type":
      return wrongType(value, issue.expected === "number" && info?.shape.type === "integer" ? "int" : issue.expected);
    case "invalid_value":
      return wrongChoice(value, issue.values.map(String));
    case "too_small":
      return {
        problem: sizeProblem(issue.origin, value),
        remedy: `Write ${sizeBound(issue.origin, "at least", issue.minimum, issue.inclusive)}`,
      };
    case "too_big":
      return {
        problem: sizeProblem(issue.origin, value),
        remedy: `Write ${sizeBound(issue.origin, "at most", issue.maximum, issue.inclusive)}`,
      };
    case "invalid_union":
      return explainUnion(issue, value);
    default:
      return ownMessage(issue.message, value);
  }
}

/** A number where a text with a unit stands: say the text. */
function byUnit(value: unknown, meta: KeyMeta, key: string): Finding | undefined {
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  if (meta.duration) {
    const fits = Number.isInteger(value) && value >= 0;
    const twin = fits ? `, or milliseconds as ${key}_ms = ${value}` : "";
    return {
      problem: `${value} has no unit`,
      remedy: `Write a duration in quotes, for example "${fits ? value : 5}${value >= 100 ? "ms" : "s"}"${twin}`,
    };
  }
  if (meta.unit === "host:port") {
    return {
      problem: `${value} is only a number`,
      remedy: `Write "HOST:PORT" in quotes, for example "127.0.0.1:${Number.isInteger(value) && value > 0 && value < 65_536 ? value : 8080}"`,
    };
  }
  return undefined;
}

function wrongType(value: unknown, expected: string): Finding {
  if (value === undefined) return { problem: "is missing", remedy: `Write ${TYPE_NAMES[expected] ?? expected}` };
  const remedy = `Write ${TYPE_NAMES[expected] ?? expected}`;
  if (expected === "boolean" && typeof value === "string")
    return { problem: `${show(value)} is a text`, remedy: "Write true or false, without quotes" };
  if ((expected === "number" || expected === "int") && typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value))
    return { problem: `${show(value)} is a text`, remedy: `Write the number without quotes: ${value}` };
  return { problem: `${show(value)} is ${typeName(value)}`, remedy };
}

function wrongChoice(value: unknown, values: readonly string[]): Finding {
  const near = typeof value === "string" ? nearest(value, values) : undefined;
  const meant = near === undefined ? "" : `; did you mean "${near}"?`;
  const list = values.map((known) => `"${known}"`).join(", ");
  return {
    problem: `${show(value)} is not known here`,
    remedy: `Use ${values.length === 1 ? "" : "one of "}${list}${meant}`,
  };
}

function sizeProblem(origin: string, value: unknown): string {
  if (origin === "string" && value === "") return "is empty";
  if (origin === "array") return `has ${Array.isArray(value) ? value.length : 0} entries`;
  if (typeof value === "number" && value < 0) return `${value} is negative`;
  return `${show(value)} is out of range`;
}

function sizeBound(
  origin: string,
  bound: "at least" | "at most",
  limit: number | bigint,
  inclusive: boolean | undefined,
): string {
  if (origin === "string") return limit === 1 ? "a text, or leave the key out" : `${bound} ${limit} letters`;
  if (origin === "array") return `${bound} ${limit} entries`;
  if (inclusive !== false) return `${bound} ${limit}`;
  return bound === "at least" ? `a number above ${limit}` : `a number below ${limit}`;
}

/** The first branch that got past the type says most; else the types that would do. */
function explainUnion(issue: z.core.$ZodIssueInvalidUnion, value: unknown): Finding {
  const deeper = issue.errors.find((errors) => errors.every((e) => e.code !== "invalid_type" || e.path.length > 0));
  if (deeper?.[0] !== undefined)
    return explainIssue(deeper[0], deeper[0].path.length === 0 ? value : at(value, deeper[0].path));
  const types = issue.errors.flatMap((errors) =>
    errors.flatMap((e) => (e.code === "invalid_type" ? [TYPE_NAMES[e.expected] ?? e.expected] : [])),
  );
  return { problem: `${show(value)} is ${typeName(value)}`, remedy: `Write ${[...new Set(types)].join(", or ")}` };
}

/** A message of ours: "what is. What would be right", beginning with the verb or spelling the value itself. */
function ownMessage(message: string, value: unknown): Finding {
  const cut = message.indexOf(". ");
  const said = cut < 0 ? message : message.slice(0, cut);
  const problem = /^(is|has|takes|needs|must)\b/.test(said) && value !== undefined ? `${show(value)} ${said}` : said;
  return cut < 0 ? { problem } : { problem, remedy: message.slice(cut + 2) };
}

/** The value below a path, or undefined. */
export function at(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value;
  for (const step of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = (found as Record<PropertyKey, unknown>)[step];
  }
  return found;
}

function show(value: unknown): string {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "a time" : value.toISOString();
  if (typeof value === "number" && !Number.isFinite(value))
    return String(value).toLowerCase().replace("infinity", "inf");
  const text =
    typeof value === "object"
      ? JSON.stringify(value)
      : typeof value === "string"
        ? JSON.stringify(value)
        : String(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

function typeName(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (value instanceof Date) return "a date";
  if (typeof value === "number" && !Number.isFinite(value)) return "no finite number";
  if (typeof value === "number") return Number.isInteger(value) ? "a whole number" : "a number with a fraction";
  if (typeof value === "string") return "a text";
  if (typeof value === "boolean") return "a boolean";
  return "a table";
}
