import type { z } from "zod";
import { formatKeyPath, type KeyPath, parseKeyPath } from "./key-path.ts";
import { coerceText, type Layers, type ReadSecret, setValue } from "./layers.ts";
import { at, nearest, type Origin, problemAt } from "./problems.ts";
import { fieldNames, findField, keyInfo } from "./schema-walk.ts";

/** Values by dotted key, for example `{ "router.policy": "round_robin" }`. Texts are read as the key's type. */
export type Overrides = Readonly<Record<string, string | number | boolean | readonly string[]>>;

type Found =
  | { readonly path: KeyPath; readonly schema: z.ZodType; readonly twin?: "ms" | "file" }
  | { readonly problem: string; readonly remedy: string };

/**
 * Take flags in, last of all layers. A key that is not known is an error here: somebody just typed it.
 * @param flagOf how a message names the flag, by dotted key
 */
export function addOverrideLayer(
  layers: Layers,
  overrides: Overrides,
  schema: z.ZodType,
  readSecret: ReadSecret,
  flagOf: (key: string) => string,
): void {
  for (const [key, given] of Object.entries(overrides)) {
    const found = resolveKey(key, schema, layers);
    const originOf = (path: KeyPath): Origin => ({ from: "flag", flag: flagOf(key), path: formatKeyPath(path) });
    if ("problem" in found) {
      layers.problems.push(problemAt([], originOf([]), found));
      continue;
    }
    const text = found.twin === "ms" ? `${given}ms` : found.twin === "file" ? readSecret(String(given)).trim() : given;
    const value = typeof text === "string" ? coerceText(text, found.schema) : Array.isArray(text) ? [...text] : text;
    setValue(layers, found.path, value, found.schema, originOf, readSecret);
  }
}

/** Follow a dotted key through the schema; aliases give the present name. */
function resolveKey(key: string, root: z.ZodType, layers: Layers): Found {
  const written = parseKeyPath(key);
  if (written === undefined) {
    return { problem: `"${key}" is no key`, remedy: 'Write dotted keys, for example router.policy or models."a.b".tp' };
  }
  let schema = root;
  let twin: "ms" | "file" | undefined;
  const path: (string | number)[] = [];
  for (const step of written) {
    const { shape } = keyInfo(schema);
    const below = at(layers.tree, path);
    if (shape.type === "table") {
      const field = findField(shape.fields, String(step));
      if (field === undefined) return unknownStep(key, String(step), fieldNames(shape.fields));
      path.push(field.name);
      ({ schema, twin } = { schema: field.schema, twin: field.twin });
    } else if (shape.type === "record") {
      path.push(String(step));
      schema = shape.value;
    } else if (shape.type === "list" && typeof step === "number" && step <= (Array.isArray(below) ? below.length : 0)) {
      path.push(step);
      schema = shape.item;
    } else {
      return { problem: `"${key}" goes deeper than the key does`, remedy: `Stop at ${formatKeyPath(path)}` };
    }
  }
  return { path, schema, ...(twin === undefined ? {} : { twin }) };
}

function unknownStep(key: string, step: string, known: readonly string[]): Found {
  const near = nearest(step, known);
  return {
    problem: `there is no key "${key}"`,
    remedy:
      near === undefined ? `Known instead of "${step}": ${known.join(", ")}` : `Did you mean "${near}" for "${step}"?`,
  };
}
