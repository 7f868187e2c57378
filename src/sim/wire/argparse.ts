import { CgnError } from "../../core/errors.ts";

/** How a flag of an engine's command line takes its values. */
export type FlagKind =
  | "bare"
  | "toggle"
  | "text"
  | "int"
  | "float"
  | "json"
  | "many"
  | { readonly choices: readonly string[] };

export type FlagTable = Readonly<Record<string, FlagKind>>;

export interface ParsedArgs {
  readonly positionals: readonly string[];
  /** By long name without dashes; bare flags have "true" or "false"; the last one written wins. */
  readonly values: ReadonlyMap<string, readonly string[]>;
}

/**
 * Parse a command line the way the engines' argparse does: `--flag value`, `--flag=value`, `_` for `-` in long names, any
 * unambiguous beginning of a name, `--no-x` for toggles, `--json-flag.key value`.
 * @param program stands in front of messages
 * @throws CgnError BAD_INVOCATION (exit 2) in argparse's words
 */
export function parseArgs(program: string, argv: readonly string[], table: FlagTable): ParsedArgs {
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  const unknown: string[] = [];
  for (let i = 0; i < argv.length; ) {
    const word = argv[i++]!;
    if (!isFlag(word)) {
      (unknown.length > 0 ? unknown : positionals).push(word);
      continue;
    }
    const [written = "", inline] = split(word);
    const flag = resolve(program, written, table);
    if (flag === undefined) {
      unknown.push(word);
      continue;
    }
    const following: string[] = inline === undefined ? [] : [inline];
    if (flag.kind !== "bare" && flag.kind !== "toggle" && inline === undefined) {
      while (i < argv.length && !isFlag(argv[i]!) && (flag.kind === "many" || following.length === 0))
        following.push(argv[i++]!);
      if (following.length === 0)
        fail(program, `argument --${flag.name}: expected ${flag.kind === "many" ? "at least one" : "one"} argument`);
    }
    store(program, values, flag, following);
  }
  if (unknown.length > 0) fail(program, `unrecognized arguments: ${unknown.join(" ")}`);
  return { positionals, values };
}

/** End with argparse's line. @throws CgnError BAD_INVOCATION */
export function fail(program: string, message: string): never {
  throw new CgnError("BAD_INVOCATION", `${program}: error: ${message}`, {});
}

interface Resolved {
  readonly name: string;
  readonly kind: FlagKind;
  readonly value?: string;
  /** Key inside a JSON flag. */
  readonly key?: string;
}

const isFlag = (word: string): boolean => /^-{1,2}[A-Za-z]/.test(word);

function split(word: string): [string, string | undefined] {
  const at = word.indexOf("=");
  const name = (at < 0 ? word : word.slice(0, at)).replace(/^-+/, "");
  return [name, at < 0 ? undefined : word.slice(at + 1)];
}

function resolve(program: string, written: string, table: FlagTable): Resolved | undefined {
  const dot = written.indexOf(".");
  const key = dot < 0 ? undefined : written.slice(dot + 1);
  const name = (dot < 0 ? written : written.slice(0, dot)).replaceAll("_", "-");
  const found = table[name];
  if (key !== undefined) return found === "json" ? { name, kind: found, key } : undefined;
  if (found !== undefined) return { name, kind: found, value: "true" };
  if (name.startsWith("no-") && table[name.slice(3)] === "toggle")
    return { name: name.slice(3), kind: "toggle", value: "false" };
  const longer = Object.keys(table).filter((candidate) => candidate.startsWith(name));
  if (longer.length > 1)
    fail(program, `ambiguous option: --${name} could match ${longer.map((n) => `--${n}`).join(", ")}`);
  const only = longer[0];
  return only === undefined ? undefined : { name: only, kind: table[only]!, value: "true" };
}

function store(program: string, values: Map<string, string[]>, flag: Resolved, following: readonly string[]): void {
  const { name, kind } = flag;
  const value = following[0] ?? "";
  if (kind === "bare" || kind === "toggle") {
    if (following.length > 0) fail(program, `argument --${name}: ignored explicit argument '${value}'`);
    values.set(name, [flag.value ?? "true"]);
    return;
  }
  const bad = complaint(kind, value);
  if (bad !== undefined) fail(program, `argument --${name}: ${bad}`);
  if (flag.key === undefined) {
    values.set(name, [...following]);
    return;
  }
  const before = JSON.parse(values.get(name)?.[0] ?? "{}") as Record<string, unknown>;
  values.set(name, [JSON.stringify({ ...before, [flag.key]: value })]);
}

function complaint(kind: FlagKind, value: string): string | undefined {
  if (typeof kind === "object") {
    const choices = kind.choices.map((c) => `'${c}'`).join(", ");
    return kind.choices.includes(value) ? undefined : `invalid choice: '${value}' (choose from ${choices})`;
  }
  if (kind === "int" && !/^[+-]?\d+$/.test(value)) return `invalid int value: '${value}'`;
  if (kind === "float" && !/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(value))
    return `invalid float value: '${value}'`;
  return undefined;
}
