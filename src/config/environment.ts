import type { z } from "zod";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { coerceText, isTable, type Layers, type ReadSecret, setValue, type Tree } from "./layers.ts";
import { nearest, type Origin, problemAt } from "./problems.ts";
import { fieldNames, findField, keyInfo, schemaKeys } from "./schema-walk.ts";

const PREFIX = "CGN__";

/** A key that a variable names: its present path, its schema, and the twin that was spelled. */
interface Target {
  readonly path: KeyPath;
  readonly schema: z.ZodType;
  readonly twin?: "ms" | "file";
}

/**
 * The variable that overrides a key: `router.listen_http` → `CGN__ROUTER__LISTEN_HTTP`. What a file names itself keeps its
 * letters and digits, all else becomes `_`.
 */
export function environmentName(path: readonly (string | number)[]): string {
  return PREFIX + path.map((step) => variablePart(String(step))).join("__");
}

const variablePart = (name: string): string => name.replaceAll(/[^A-Za-z0-9]/g, "_").toUpperCase();

/** Take every `CGN__…` variable in, in the order of their names. A name that fits no key is a warning. */
export function addEnvironmentLayer(
  layers: Layers,
  env: Readonly<Record<string, string | undefined>>,
  schema: z.ZodType,
  readSecret: ReadSecret,
): void {
  for (const variable of Object.keys(env).sort()) {
    const text = env[variable];
    if (text === undefined || !variable.startsWith(PREFIX)) continue;
    const target = resolveVariable(variable.slice(PREFIX.length), schema, layers.tree, []);
    const originOf = (path: KeyPath): Origin => ({ from: "environment", variable, path: formatKeyPath(path) });
    if (target === undefined) {
      layers.problems.push(problemAt([], originOf([]), unknownVariable(variable, schema)));
    } else {
      const value = variableValue(layers, text, target, originOf(target.path), readSecret);
      if (value !== undefined) setValue(layers, target.path, value, target.schema, originOf, readSecret);
    }
  }
}

/** A twin's value is turned into the key's own; a problem is noted, with undefined as the result. */
function variableValue(layers: Layers, text: string, target: Target, origin: Origin, readSecret: ReadSecret): unknown {
  if (target.twin === undefined) return coerceText(text, target.schema);
  if (target.twin === "ms") {
    if (/^\d+$/.test(text)) return `${text}ms`;
    const finding = {
      problem: `"${text}" is no number of milliseconds`,
      remedy: "Write a whole number, for example 800",
    };
    layers.problems.push(problemAt(target.path, origin, finding));
    return undefined;
  }
  try {
    return readSecret(text).trim();
  } catch (e) {
    const problem = `"${text}" cannot be read: ${e instanceof Error ? e.message : String(e)}`;
    layers.problems.push(problemAt(target.path, origin, { problem, remedy: "Name a readable file" }));
    return undefined;
  }
}

/** Walk the schema along a variable's name. `written` is what the file has here, to find names with odd letters. */
function resolveVariable(rest: string, schema: z.ZodType, written: unknown, path: KeyPath): Target | undefined {
  if (rest === "") return path.length === 0 ? undefined : { path, schema };
  const { shape } = keyInfo(schema);
  if (shape.type === "table") {
    return longestFirst(fieldNames(shape.fields), rest, (name, left) => {
      const field = findField(shape.fields, name)!;
      const next = [...path, field.name];
      if (field.twin !== undefined)
        return left === "" ? { path: next, schema: field.schema, twin: field.twin } : undefined;
      return resolveVariable(left, field.schema, isTable(written) ? written[field.name] : undefined, next);
    });
  }
  if (shape.type === "record") return resolveRecord(rest, shape.value, isTable(written) ? written : {}, path);
  if (shape.type === "list") {
    const [, index, left] = /^(\d+)(?:__(.*))?$/.exec(rest) ?? [];
    if (index === undefined || Number(index) > (Array.isArray(written) ? written.length : 0)) return undefined;
    const below: unknown = Array.isArray(written) ? written[Number(index)] : undefined;
    return resolveVariable(left ?? "", shape.item, below, [...path, Number(index)]);
  }
  return undefined;
}

function longestFirst(
  names: readonly string[],
  rest: string,
  then: (name: string, left: string) => Target | undefined,
) {
  for (const name of [...names].sort((a, b) => b.length - a.length)) {
    const part = variablePart(name);
    if (rest.toUpperCase() !== part && !rest.toUpperCase().startsWith(`${part}__`)) continue;
    const target = then(name, rest.slice(part.length + 2));
    if (target !== undefined) return target;
  }
  return undefined;
}

/** A declared name, else what stands before the last `__` that leaves a known key, in the letters of the variable. */
function resolveRecord(rest: string, value: z.ZodType, written: Tree, path: KeyPath): Target | undefined {
  const declared = longestFirst(Object.keys(written), rest, (name, left) =>
    resolveVariable(left, value, written[name], [...path, name]),
  );
  if (declared !== undefined) return declared;
  for (let cut = rest.lastIndexOf("__"); cut > 0; cut = rest.lastIndexOf("__", cut - 1)) {
    const target = resolveVariable(rest.slice(cut + 2), value, undefined, [...path, rest.slice(0, cut)]);
    if (target !== undefined) return target;
  }
  // A name with a plain value (`[engine].env`): the whole rest is the name.
  return keyInfo(value).shape.type === "table" ? undefined : { path: [...path, rest], schema: value };
}

function unknownVariable(variable: string, schema: z.ZodType) {
  const near = nearest(
    variable,
    schemaKeys(schema).map((key) => environmentName(key.path)),
  );
  return {
    severity: "warning" as const,
    problem: "no key has this name; it is ignored",
    remedy: near === undefined ? "Write CGN__SECTION__KEY, two underscores between levels" : `Did you mean ${near}?`,
  };
}
