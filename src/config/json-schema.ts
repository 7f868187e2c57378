import { z } from "zod";
import type { Engine } from "../engines/engine.ts";
import { ENGINES } from "../engines/registry.ts";
import { configSchema } from "./config-schema.ts";
import { keyInfo } from "./schema-walk.ts";

interface JsonObject {
  [key: string]: unknown;
}

/**
 * The JSON schema of a configuration file (draft 2020-12), for editors and other tools: what `cgn.schema.json` holds.
 * Aliases and twins (`_ms`, `_file`) are in it; units stand as `x-unit`.
 */
export function configJsonSchema(engines: readonly Engine[] = ENGINES): JsonObject {
  const schema = configSchema(engines);
  const json = z.toJSONSchema(schema, { io: "input", target: "draft-2020-12", reused: "inline" }) as JsonObject;
  addNames(schema, json);
  cleanMeta(json);
  const { $schema, ...rest } = json;
  return {
    $schema,
    $id: "cgn.schema.json",
    title: "cgn configuration",
    description: "cgn.toml. A key that is not listed is read with a warning",
    ...rest,
  };
}

/** Text of `cgn.schema.json`. */
export function configJsonSchemaText(engines: readonly Engine[] = ENGINES): string {
  return `${JSON.stringify(configJsonSchema(engines), null, 2)}\n`;
}

/** Walk schema and JSON schema side by side, and add the other names that tables read. */
function addNames(schema: z.ZodType, json: JsonObject): void {
  const { shape } = keyInfo(schema);
  if (shape.type === "record") addNames(shape.value, json.additionalProperties as JsonObject);
  if (shape.type === "list" && isObject(json.items)) addNames(shape.item, json.items);
  if (shape.type !== "table" || !isObject(json.properties)) return;
  const { properties } = json as { properties: Record<string, JsonObject> };
  for (const [name, field] of Object.entries(shape.fields)) {
    const own = properties[name];
    if (own === undefined) continue;
    addNames(field, own);
    const { meta } = keyInfo(field);
    for (const alias of meta.aliases ?? []) properties[alias] = { ...own, description: `Another name of ${name}` };
    if (meta.duration) {
      properties[`${name}_ms`] ??= { type: "integer", minimum: 0, unit: "ms", description: `${name} in milliseconds` };
    }
    if (meta.secret)
      properties[`${name}_file`] ??= { type: "string", unit: "path", description: `File that holds ${name}` };
  }
}

/** Our meta fields are no JSON schema keywords: units and words become `x-`, the rest goes. */
function cleanMeta(json: unknown): void {
  if (Array.isArray(json)) for (const each of json) cleanMeta(each);
  if (!isObject(json)) return;
  const isSchema = !("properties" in json && isObject(json.properties) && json.type === undefined);
  if (isSchema) renameMeta(json);
  for (const [key, value] of Object.entries(json)) {
    if (key === "properties" && isObject(value)) for (const each of Object.values(value)) cleanMeta(each);
    else if (["items", "additionalProperties"].includes(key)) cleanMeta(value);
    else if (["anyOf", "oneOf", "allOf"].includes(key)) cleanMeta(value);
  }
}

function renameMeta(json: JsonObject): void {
  if (typeof json.unit === "string") json["x-unit"] = json.unit;
  if (typeof json.defaultText === "string") json["x-default"] = json.defaultText;
  if (json.unsupported === true) json.deprecated = true;
  // zod's bounds of a safe integer say nothing to a reader.
  if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum;
  if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum;
  for (const key of ["unit", "defaultText", "unsupported", "aliases", "duration", "secret"]) delete json[key];
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
