import type { z } from "zod";
import type { KeyMeta } from "./schema-fields.ts";

/** What a key takes, without zod's wrappers. */
export type Shape =
  | { readonly type: "table"; readonly fields: Readonly<Record<string, z.ZodType>> }
  | { readonly type: "record"; readonly value: z.ZodType }
  | { readonly type: "list"; readonly item: z.ZodType }
  | { readonly type: "choice"; readonly values: readonly (string | number)[] }
  | { readonly type: "union"; readonly options: readonly z.ZodType[] }
  | { readonly type: "text" | "integer" | "number" | "boolean" | "any" };

/** A schema seen as a configuration key. */
export interface KeyInfo {
  readonly shape: Shape;
  readonly meta: KeyMeta;
  /** As it would be written in the file; undefined when there is none. */
  readonly fallback: unknown;
}

/** The inside of zod's definitions that is read here (zod 4). */
interface Def {
  readonly type: string;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly out?: z.ZodType;
  readonly getter?: () => z.ZodType;
  readonly defaultValue?: unknown;
  readonly shape?: Record<string, z.ZodType>;
  readonly valueType?: z.ZodType;
  readonly element?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly entries?: Record<string, string | number>;
  readonly values?: readonly (string | number)[];
  readonly format?: string;
  readonly checks?: readonly { readonly _zod: { readonly def: { readonly format?: string } } }[];
}

const defOf = (schema: z.ZodType): Def => schema.def as unknown as Def;

/** Look through defaults, optionals and transforms; outer meta wins over inner. */
export function keyInfo(schema: z.ZodType): KeyInfo {
  let at = schema;
  let meta: KeyMeta = {};
  let fallback: unknown;
  for (;;) {
    meta = { ...(at.meta() as KeyMeta | undefined), ...meta };
    const def = defOf(at);
    if (fallback === undefined && (def.type === "default" || def.type === "prefault")) fallback = def.defaultValue;
    // `z.preprocess()` is a pipe whose input is the transform: the shape is behind it.
    const next =
      def.type === "pipe"
        ? defOf(def.in!).type === "transform"
          ? def.out
          : def.in
        : (def.innerType ?? def.getter?.());
    if (next === undefined) return { shape: shapeOf(def), meta, fallback };
    at = next;
  }
}

function shapeOf(def: Def): Shape {
  switch (def.type) {
    case "object":
      return { type: "table", fields: def.shape ?? {} };
    case "record":
      return { type: "record", value: def.valueType! };
    case "array":
      return { type: "list", item: def.element! };
    case "enum":
      return { type: "choice", values: Object.values(def.entries ?? {}) };
    case "literal":
      return { type: "choice", values: def.values ?? [] };
    case "union":
      return { type: "union", options: def.options ?? [] };
    case "string":
      return { type: "text" };
    case "boolean":
      return { type: "boolean" };
    case "number":
      return { type: isInteger(def) ? "integer" : "number" };
    default:
      return { type: "any" };
  }
}

function isInteger(def: Def): boolean {
  const formats = [def.format, ...(def.checks ?? []).map((check) => check._zod.def.format)];
  return formats.some((format) => format === "safeint" || format === "int32" || format === "uint32");
}

/** What a key below a schema takes; the last one known when the path leads out of the schema. */
export function keyAt(schema: z.ZodType, path: readonly (string | number)[]): KeyInfo {
  let info = keyInfo(schema);
  for (const step of path) {
    const { shape } = info;
    const next =
      shape.type === "table"
        ? shape.fields[step]
        : shape.type === "record"
          ? shape.value
          : shape.type === "list"
            ? shape.item
            : undefined;
    if (next === undefined) return info;
    info = keyInfo(next);
  }
  return info;
}

/** A key of a table that a written name stands for: itself, an alias, or a `_ms` or `_file` twin. */
export interface FieldMatch {
  readonly name: string;
  readonly schema: z.ZodType;
  readonly twin?: "ms" | "file";
}

/** Find the field of a table that `written` names. */
export function findField(fields: Readonly<Record<string, z.ZodType>>, written: string): FieldMatch | undefined {
  if (Object.hasOwn(fields, written)) return { name: written, schema: fields[written]! };
  for (const [name, schema] of Object.entries(fields)) {
    const { meta } = keyInfo(schema);
    if (meta.aliases?.includes(written)) return { name, schema };
    if (meta.duration && written === `${name}_ms`) return { name, schema, twin: "ms" };
    if (meta.secret && written === `${name}_file`) return { name, schema, twin: "file" };
  }
  return undefined;
}

/** Every name that a table reads: fields, aliases and twins. */
export function fieldNames(fields: Readonly<Record<string, z.ZodType>>): string[] {
  return Object.entries(fields).flatMap(([name, schema]) => {
    const { meta } = keyInfo(schema);
    const twins = [meta.duration ? `${name}_ms` : "", meta.secret ? `${name}_file` : ""];
    return [name, ...(meta.aliases ?? []), ...twins.filter((twin) => twin !== "" && !Object.hasOwn(fields, twin))];
  });
}

/** One key of the reference: its path with `NAME` and `[]` for what a file names itself. */
export interface SchemaKey {
  readonly path: readonly string[];
  readonly info: KeyInfo;
}

/** All keys below a schema, depth first, in the schema's order. Tables come before their keys. */
export function schemaKeys(schema: z.ZodType, base: readonly string[] = []): SchemaKey[] {
  const info = keyInfo(schema);
  const own: SchemaKey[] = base.length === 0 ? [] : [{ path: base, info }];
  if (info.shape.type === "table") {
    return [
      ...own,
      ...Object.entries(info.shape.fields).flatMap(([name, field]) => schemaKeys(field, [...base, name])),
    ];
  }
  if (info.shape.type === "record") return [...own, ...schemaKeys(info.shape.value, [...base, "NAME"])];
  if (info.shape.type === "list" && keyInfo(info.shape.item).shape.type === "table") {
    return [...own, ...schemaKeys(info.shape.item, [...base, "[]"])];
  }
  return own;
}
