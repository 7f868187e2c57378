import type { z } from "zod";
import type { Problem } from "../core/errors.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { type Finding, nearest, type Origin, problemAt } from "./problems.ts";
import { splitCommas } from "./schema-fields.ts";
import { fieldNames, findField, keyInfo } from "./schema-walk.ts";

export type Tree = { [key: string]: unknown };

/** Known keys only, under their present names, from all layers; and where each came from. */
export interface Layers {
  readonly tree: Tree;
  /** By `formatKeyPath()` of the present name. */
  readonly origins: Map<string, Origin>;
  readonly problems: Problem[];
}

/** Gives the content of a `KEY_file` twin. @throws Error with the reason in words */
export type ReadSecret = (path: string) => string;

/** Tells where a key that a layer wrote stands. `part`: the key, or its value. */
export type OriginOf = (written: KeyPath, part: "key" | "value") => Origin;

/** One layer on its way into the tree. */
interface Intake {
  readonly layers: Layers;
  readonly originOf: OriginOf;
  readonly readSecret: ReadSecret;
}

export function newLayers(): Layers {
  return { tree: table(), origins: new Map(), problems: [] };
}

/** Take a parsed file in: names are resolved, unknown keys become warnings, and all places are noted. */
export function addFileLayer(
  layers: Layers,
  value: Tree,
  schema: z.ZodType,
  originOf: OriginOf,
  readSecret: ReadSecret,
): void {
  const taken = takeTable({ layers, originOf, readSecret }, value, schema, [], []);
  Object.assign(layers.tree, taken);
}

/** Set one value from the environment or a flag; tables and lists in between are made. */
export function setValue(
  layers: Layers,
  path: KeyPath,
  value: unknown,
  schema: z.ZodType,
  originOf: OriginOf,
  readSecret: ReadSecret,
): void {
  const intake = { layers, originOf, readSecret };
  for (const name of layers.origins.keys()) if (isBelow(name, formatKeyPath(path))) layers.origins.delete(name);
  let at: unknown = layers.tree;
  for (const [n, step] of path.slice(0, -1).entries()) {
    const holder = at as Record<string | number, unknown>;
    const next = holder[step];
    if (typeof next !== "object" || next === null) {
      holder[step] = typeof path[n + 1] === "number" ? [] : table();
      layers.origins.set(formatKeyPath(path.slice(0, n + 1)), originOf(path.slice(0, n + 1), "key"));
    }
    at = holder[step];
  }
  (at as Record<string | number, unknown>)[path.at(-1)!] = take(intake, value, schema, path, path);
}

const isBelow = (name: string, parent: string): boolean =>
  name.startsWith(`${parent}.`) || name.startsWith(`${parent}[`);

/** `written` is the path as the layer spells it, `path` the present one. */
function take(intake: Intake, value: unknown, schema: z.ZodType, path: KeyPath, written: KeyPath): unknown {
  intake.layers.origins.set(formatKeyPath(path), intake.originOf(written, "value"));
  const { shape } = keyInfo(schema);
  if (shape.type === "table" && isTable(value)) return takeTable(intake, value, schema, path, written);
  if (shape.type === "record" && isTable(value)) {
    const record = table();
    for (const [name, each] of Object.entries(value)) {
      record[name] = take(intake, each, shape.value, [...path, name], [...written, name]);
    }
    return record;
  }
  if (shape.type === "list" && Array.isArray(value)) {
    return value.map((each, n) => take(intake, each, shape.item, [...path, n], [...written, n]));
  }
  return value;
}

function takeTable(intake: Intake, value: Tree, schema: z.ZodType, path: KeyPath, written: KeyPath): Tree {
  const { shape } = keyInfo(schema);
  const fields = shape.type === "table" ? shape.fields : {};
  const taken = table();
  const spelled = new Map<string, string>();
  for (const [name, each] of Object.entries(value)) {
    const place = [...written, name];
    const field = findField(fields, name);
    if (field === undefined) {
      report(intake, place, "key", unknownKey(name, place, fieldNames(fields)));
    } else if (Object.hasOwn(taken, field.name)) {
      report(intake, place, "key", twiceFinding(name, spelled.get(field.name) ?? field.name));
    } else {
      spelled.set(field.name, name);
      const plain = field.twin === undefined ? each : fromTwin(intake, each, place, field.twin);
      if (plain !== undefined) taken[field.name] = take(intake, plain, field.schema, [...path, field.name], place);
    }
  }
  return taken;
}

function report(intake: Intake, written: KeyPath, part: "key" | "value", finding: Finding): void {
  intake.layers.problems.push(problemAt(written, intake.originOf(written, part), finding));
}

function unknownKey(name: string, place: KeyPath, known: readonly string[]): Finding {
  const near = nearest(name, known);
  const what = place.length === 1 ? "section" : "key";
  return {
    severity: "warning",
    problem: `no such ${what}; it is ignored`,
    remedy: near === undefined ? `Known here: ${known.join(", ")}` : `Did you mean ${near}?`,
  };
}

function twiceFinding(written: string, first: string): Finding {
  return { problem: `${written} and ${first} are the same key, and both are written`, remedy: "Remove one of them" };
}

/** The value that a `_ms` or `_file` twin stands for; undefined after a problem was reported. */
function fromTwin(intake: Intake, value: unknown, place: KeyPath, twin: "ms" | "file"): unknown {
  if (twin === "ms") {
    if (typeof value === "number" && value >= 0) return `${value}ms`;
    const problem = typeof value === "number" ? `${value} is negative` : `${JSON.stringify(value)} is no number`;
    report(intake, place, "value", { problem, remedy: "Write milliseconds as a whole number, for example 800" });
    return undefined;
  }
  try {
    return intake.readSecret(String(value)).trim();
  } catch (e) {
    const reason = e instanceof Error ? e.message : String(e);
    report(intake, place, "value", {
      problem: `${JSON.stringify(value)} cannot be read: ${reason}`,
      remedy: "Name a readable file",
    });
    return undefined;
  }
}

/**
 * Read a text of the environment or of `--set` as what the key takes: `true/false/1/0`, numbers, lists as JSON or comma
 * separated, tables as JSON. What does not fit stays a text, and validation says so.
 */
export function coerceText(text: string, schema: z.ZodType): unknown {
  const { shape } = keyInfo(schema);
  switch (shape.type) {
    case "boolean":
      return text === "1" || /^true$/i.test(text) ? true : text === "0" || /^false$/i.test(text) ? false : text;
    case "integer":
    case "number":
      return /^[+-]?(\d[\d_]*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? Number(text.replaceAll("_", "")) : text;
    case "list":
      return jsonOr(text, "[") ?? splitCommas(text).map((part) => coerceText(part, shape.item));
    case "table":
    case "record":
      return jsonOr(text, "{") ?? text;
    case "union":
      return coerceUnion(text, shape.options);
    case "choice":
      return shape.values.find((value) => String(value) === text) ?? text;
    default:
      return text;
  }
}

function coerceUnion(text: string, options: readonly z.ZodType[]): unknown {
  const json = jsonOr(text, "[") ?? jsonOr(text, "{");
  if (json !== undefined) return json;
  const read = options.map((option) => coerceText(text, option));
  return read.find((value) => typeof value === "boolean" || typeof value === "number") ?? text;
}

function jsonOr(text: string, begin: "[" | "{"): unknown {
  if (!text.trimStart().startsWith(begin)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export function isTable(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** Without a prototype: a key such as `__proto__` is a key. */
function table(): Tree {
  return Object.create(null) as Tree;
}
