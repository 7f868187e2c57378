type Schema = Readonly<Record<string, unknown>>;

/** Levels after which an optional or recursive member is left out. */
const MOST_LEVELS = 8;

/** A made-up JSON text that a simple schema allows: types, enum, const, properties, items, local $ref, the first of anyOf and oneOf. ASCII. */
export function madeJson(schema: unknown): string {
  const value = make(schema, schema, 0);
  // One token a character: what is not ASCII is written as escapes.
  return JSON.stringify(value).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function make(schema: unknown, root: unknown, level: number): unknown {
  if (typeof schema !== "object" || schema === null || level > MOST_LEVELS) return level === 0 ? {} : null;
  const one = schema as Schema;
  if ("const" in one) return one["const"];
  if (Array.isArray(one["enum"]) && one["enum"].length > 0) return one["enum"][0];
  if (typeof one["$ref"] === "string") return make(resolve(one["$ref"], root), root, level + 1);
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const options = one[key];
    if (Array.isArray(options) && options.length > 0) return make(options[0], root, level + 1);
  }
  return ofType(
    [one["type"]].flat()[0] ?? ("properties" in one || level === 0 ? "object" : "string"),
    one,
    root,
    level,
  );
}

function ofType(type: unknown, schema: Schema, root: unknown, level: number): unknown {
  switch (type) {
    case "object": {
      const properties = Object.entries((schema["properties"] ?? {}) as Schema);
      return Object.fromEntries(properties.map(([name, each]) => [name, make(each, root, level + 1)]));
    }
    case "array": {
      const least = Math.min(16, Number(schema["minItems"] ?? 1));
      return Array.from({ length: Math.max(schema["maxItems"] === 0 ? 0 : 1, least) }, () =>
        make(schema["items"] ?? { type: "string" }, root, level + 1),
      );
    }
    case "integer":
      return Math.ceil(Number(schema["minimum"] ?? 7));
    case "number":
      return Number(schema["minimum"] ?? 1.5);
    case "boolean":
      return true;
    case "null":
      return null;
    default: {
      const least = Number(schema["minLength"] ?? 0);
      return "river".padEnd(least, "r").slice(0, Number(schema["maxLength"] ?? 1000));
    }
  }
}

function resolve(ref: string, root: unknown): unknown {
  let found: unknown = root;
  for (const key of ref.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    found = typeof found === "object" && found !== null ? (found as Schema)[key] : undefined;
  }
  return found;
}
