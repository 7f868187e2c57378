import { type AST, ParseError, parseTOML } from "toml-eslint-parser";
import { CgnError, type Problem } from "../core/errors.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";

/** A place in a text; both count from 1, columns in UTF-16 units as editors do. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** Where a key was written, and its value. A table header is both at once. */
export interface KeyPlace {
  readonly key: Place;
  readonly value: Place;
}

/** A parsed TOML text: plain values, and where each one stands. */
export interface TomlDocument {
  readonly value: TomlTable;
  /** By `formatKeyPath()`. The first place wins for a table that is written in parts. */
  readonly places: ReadonlyMap<string, KeyPlace>;
}

export interface TomlTable {
  [key: string]: TomlValue;
}

export type TomlValue = string | number | boolean | Date | TomlValue[] | TomlTable;

/**
 * Parse TOML into values with positions.
 * @param file name for messages
 * @throws CgnError CONFIG_INVALID with the place of the first syntax error
 */
export function parseToml(text: string, file: string): TomlDocument {
  const reader = new TomlReader();
  reader.read(parseOrThrow(text, file));
  return { value: reader.root, places: reader.places };
}

function parseOrThrow(text: string, file: string): AST.TOMLProgram {
  try {
    return parseTOML(text, { filePath: file });
  } catch (e) {
    if (!(e instanceof ParseError)) throw e;
    const problem: Problem = {
      severity: "error",
      path: "",
      file,
      line: e.lineNumber,
      column: e.column + 1,
      problem: `not TOML here: ${lowerFirst(e.message)}`,
      remedy: syntaxRemedy(text, e.lineNumber),
    };
    const where = `${file}:${problem.line}:${problem.column}`;
    throw new CgnError("CONFIG_INVALID", `Cannot read ${where}: ${problem.problem}. ${problem.remedy}`, {
      problems: [problem],
    });
  }
}

/** What people write when they think of another format, and its TOML. */
function syntaxRemedy(text: string, lineNumber: number): string {
  const line = text.split("\n")[lineNumber - 1] ?? "";
  const before = text.split("\n")[lineNumber - 2] ?? "";
  const open = [before, line].find((each) => /^\s*\[\[?[^\]=]*$/.test(each));
  if (open !== undefined) return `Close the header: ${open.trim()}${open.trim().startsWith("[[") ? "]]" : "]"}`;
  if (/^\s*[{[]?\s*"[^"]*"\s*:/.test(line) || text.trimStart().startsWith("{"))
    return 'This looks like JSON; TOML writes [section] headers and key = "value" lines';
  if (/^\s*[\w.-]+\s*:/.test(line)) return 'This looks like YAML; TOML writes key = "value"';
  if (/=\s*(True|False|TRUE|FALSE|yes|no|on|off)\b/.test(line)) return "Booleans are written true and false";
  if (/=\s*\d[\d.]*(ms|s|m|h|d)\b/.test(line)) return 'A duration stands in quotes, for example "5s"';
  if (/=\s*[A-Za-z/~]/.test(line)) return 'A text stands in quotes: key = "value"';
  return 'Write [section] headers and key = value lines, texts in "quotes"';
}

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

/** Builds values and places in one walk over the tree of the parser. */
class TomlReader {
  readonly root: TomlTable = newTable();
  readonly places = new Map<string, KeyPlace>();

  read(program: AST.TOMLProgram): void {
    for (const part of program.body[0].body) {
      if (part.type === "TOMLKeyValue") this.#pair(this.root, [], part);
      else this.#table(part);
    }
  }

  #table(node: AST.TOMLTable): void {
    let at: TomlTable = this.root;
    const last = node.resolvedKey.length - 1;
    for (let n = 0; n <= last; n++) {
      const step = node.resolvedKey[n]!;
      if (typeof step === "number") continue;
      const path = node.resolvedKey.slice(0, n + 1);
      const index = node.resolvedKey[n + 1];
      this.#mark(path, node.key, node.key);
      if (typeof index === "number") {
        const list = (at[step] ??= []) as TomlTable[];
        at = list[index] ??= newTable();
        this.#mark([...path, index], node.key, node.key);
      } else {
        at = (at[step] ??= newTable()) as TomlTable;
      }
    }
    for (const pair of node.body) this.#pair(at, node.resolvedKey, pair);
  }

  #pair(table: TomlTable, base: KeyPath, pair: AST.TOMLKeyValue): void {
    let at = table;
    let path = base;
    const { keys } = pair.key;
    for (const [n, key] of keys.entries()) {
      const name = key.type === "TOMLBare" ? key.name : key.value;
      path = [...path, name];
      if (n < keys.length - 1) {
        this.#mark(path, key, pair.value);
        at = (at[name] ??= newTable()) as TomlTable;
      } else {
        this.#mark(path, key, pair.value);
        at[name] = this.#value(pair.value, path);
      }
    }
  }

  #value(node: AST.TOMLContentNode, path: KeyPath): TomlValue {
    if (node.type === "TOMLValue") return node.value;
    if (node.type === "TOMLArray") {
      return node.elements.map((element, n) => {
        this.#mark([...path, n], element, element);
        return this.#value(element, [...path, n]);
      });
    }
    const table = newTable();
    for (const pair of node.body) this.#pair(table, path, pair);
    return table;
  }

  #mark(path: KeyPath, key: AST.TOMLNode, value: AST.TOMLNode): void {
    const name = formatKeyPath(path);
    if (!this.places.has(name)) this.places.set(name, { key: placeOf(key), value: placeOf(value) });
  }
}

/** Without a prototype: a key such as `__proto__` is a key. */
function newTable(): TomlTable {
  return Object.create(null) as TomlTable;
}

function placeOf(node: AST.TOMLNode): Place {
  return { line: node.loc.start.line, column: node.loc.start.column + 1 };
}
