import type { z } from "zod";
import { isSecretName } from "../core/secret-names.ts";
import { configSchema } from "./config-schema.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { isTable } from "./layers.ts";
import type { LoadedConfig } from "./load.ts";
import type { LoadContext } from "./load-context.ts";
import type { Origin } from "./problems.ts";
import { keyInfo } from "./schema-walk.ts";

/** One value of the configuration and where it came from. */
export interface ExplainedValue {
  /** As TOML spells it, under its present name. */
  readonly key: string;
  /** As it would be written in the file; undefined when nothing is set and there is no constant default. */
  readonly value: unknown;
  readonly origin: Origin;
  /** The default in words, where it is not a constant. */
  readonly note?: string;
  readonly unit?: string;
}

/** What stands for a secret. */
export const MASK = "***";

/**
 * Every key with its value and origin, in the schema's order. Sections that nobody wrote are shown with their defaults,
 * but engine sections, `[engine]` and `[[engines]]` only when they are written. Secrets are masked.
 */
export function explainConfig(loaded: LoadedConfig): ExplainedValue[] {
  const { ctx } = loaded;
  return explainTable(ctx, configSchema(ctx.engines), ctx.layers.tree, []);
}

function explainTable(ctx: LoadContext, schema: z.ZodType, value: unknown, path: KeyPath): ExplainedValue[] {
  const { shape } = keyInfo(schema);
  const table = isTable(value) ? value : {};
  if (shape.type === "record") {
    return Object.entries(table).flatMap(([name, each]) => explainTable(ctx, shape.value, each, [...path, name]));
  }
  if (shape.type !== "table") return [explainLeaf(ctx, schema, value, path)];
  return Object.entries(shape.fields).flatMap(([name, field]) => {
    const below = [...path, name];
    const inner = keyInfo(field).shape;
    const isEngine = path[0] === "engine" || path[0] === "engines" || (path.length === 0 && name === "engine");
    if (inner.type === "table" && isEngine && table[name] === undefined) return [];
    if (inner.type === "table" || inner.type === "record") return explainTable(ctx, field, table[name], below);
    if (inner.type === "list" && keyInfo(inner.item).shape.type === "table" && path.length === 0) {
      const list = Array.isArray(table[name]) ? (table[name] as unknown[]) : [];
      return list.flatMap((each, n) => explainTable(ctx, inner.item, each, [...below, n]));
    }
    return [explainLeaf(ctx, field, table[name], below)];
  });
}

function explainLeaf(ctx: LoadContext, schema: z.ZodType, written: unknown, path: KeyPath): ExplainedValue {
  const { meta, fallback } = keyInfo(schema);
  const key = formatKeyPath(path);
  const origin: Origin =
    written === undefined ? { from: "default" } : (ctx.layers.origins.get(key) ?? { from: "default" });
  const value = written ?? fallback;
  return {
    key,
    value: (meta.secret && value !== undefined) || isSecretKey(path.at(-1), value) ? MASK : maskSecrets(value),
    origin,
    ...(written === undefined && meta.defaultText !== undefined ? { note: meta.defaultText } : {}),
    ...(meta.unit === undefined ? {} : { unit: meta.unit }),
  };
}

/** A text under a name that says secret, as `[engine].env` has them. */
const isSecretKey = (name: string | number | undefined, value: unknown): boolean =>
  typeof name === "string" && typeof value === "string" && value !== "" && isSecretName(name);

const isSecretFlag = (word: string): boolean => /^--?[A-Za-z][\w-]*$/.test(word) && isSecretName(word);

/** Hide passwords in URLs, what follows flags such as `--api-key`, and what stands under a name that says secret. */
export function maskSecrets(value: unknown): unknown {
  if (typeof value === "string") return maskText(value);
  if (Array.isArray(value)) {
    let hiding = false;
    return value.map((each: unknown) => {
      const isFlag = typeof each === "string" && /^--?[A-Za-z]/.test(each);
      if (isFlag) hiding = isSecretFlag(each);
      return hiding && !isFlag ? MASK : maskSecrets(each);
    });
  }
  if (!isTable(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, isSecretKey(key, each) ? MASK : maskSecrets(each)]),
  );
}

/** One word of a command line, or a whole command as one text. */
function maskText(text: string): string {
  const [, head = "", name = ""] = /^((?:--?[\w-]+=)?(-{0,2}[A-Za-z_][\w-]*)=)./.exec(text) ?? [];
  const flag = head.slice(0, head.indexOf("="));
  if (isSecretFlag(flag)) return `${flag}=${MASK}`;
  if (isSecretName(name)) return head + MASK;
  return text
    .replace(/(^|\s)(--?[A-Za-z][\w-]*|[A-Za-z_]\w*)(=)(\S+)/g, maskPart)
    .replace(/(^|\s)(--?[A-Za-z][\w-]*)(\s+)([^-\s]\S*)/g, maskPart)
    .replace(/([a-z][a-z0-9+.-]*:\/\/)[^@/\s]+@/gi, `$1${MASK}@`);
}

function maskPart(part: string, before: string, name: string, between: string): string {
  return isSecretName(name) ? `${before}${name}${between}${MASK}` : part;
}

/** Print an origin: `default`, `cgn.toml:4`, `CGN__ROUTER__POLICY`, `--set router.policy`. */
export function formatOrigin(origin: Origin): string {
  switch (origin.from) {
    case "file":
      return `${origin.file}:${origin.line}`;
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
    default:
      return "default";
  }
}
