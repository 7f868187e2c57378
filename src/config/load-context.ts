import type { z } from "zod";
import type { EngineKind } from "../core/engine-kind.ts";
import type { Engine } from "../engines/engine.ts";
import type { HostFacts } from "./host.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import type { Layers } from "./layers.ts";
import { at, explainIssue, type Finding, type Origin, problemAt } from "./problems.ts";
import { keyAt } from "./schema-walk.ts";

/** What the steps of loading share: the merged tree, where its values came from, and the problems found so far. */
export interface LoadContext {
  readonly layers: Layers;
  readonly host: HostFacts;
  readonly engines: readonly Engine[];
  readonly file?: string;
  /** The version that an engine (by its place in the file's order) is rendered for, where one is known. */
  readonly engineVersion?: (engine: { readonly index: number; readonly kind: EngineKind }) => string | undefined;
  /** First side ports of engines that run, by their HTTP port. */
  readonly sidePortBases?: ReadonlyMap<number, number>;
}

/** Where a value came from; for one that nobody wrote, the nearest table around it that somebody did. */
export function originOf(ctx: LoadContext, path: KeyPath): Origin | undefined {
  for (let length = path.length; length > 0; length--) {
    const origin = ctx.layers.origins.get(formatKeyPath(path.slice(0, length)));
    if (origin === undefined) continue;
    // What stands around the value gives the place; the name stays the value's own.
    return length === path.length || !("path" in origin)
      ? origin
      : { ...origin, path: joinRest(origin.path, path.slice(length)) };
  }
  return undefined;
}

function joinRest(base: string, rest: KeyPath): string {
  const tail = formatKeyPath(rest);
  return tail.startsWith("[") ? base + tail : `${base}.${tail}`;
}

/** Was this key, or a key below it, set by the file, the environment or a flag? */
export function isWritten(ctx: LoadContext, path: KeyPath): boolean {
  return ctx.layers.origins.has(formatKeyPath(path));
}

/** Note a problem at the place of a key. */
export function report(ctx: LoadContext, path: KeyPath, finding: Finding): void {
  ctx.layers.problems.push(problemAt(path, originOf(ctx, path), finding, ctx.file));
}

/** How a place is told inside another message: `cgn.toml:4:14`, or the variable or flag. */
export function placeText(ctx: LoadContext, path: KeyPath): string {
  const origin = originOf(ctx, path);
  if (origin?.from === "file") return `${formatKeyPath(path)} (line ${origin.line})`;
  if (origin?.from === "environment") return `${formatKeyPath(path)} (${origin.variable})`;
  if (origin?.from === "flag") return `${formatKeyPath(path)} (${origin.flag})`;
  return formatKeyPath(path);
}

/**
 * Validate a part of the tree. Each issue is noted; what is wrong is then left out, so that the rest can be looked at too.
 * @returns the parsed part, with defaults in place of what was wrong
 */
export function parsePart<T extends z.ZodType>(
  ctx: LoadContext,
  path: KeyPath,
  schema: T,
  value: unknown,
): z.output<T> {
  const first = schema.safeParse(value ?? {});
  if (first.success) return first.data;
  const pruned = structuredClone(value ?? {}) as Record<string, unknown>;
  for (const issue of first.error.issues) {
    const steps = issue.path.filter((step) => typeof step !== "symbol");
    const info = keyAt(schema, steps);
    report(ctx, [...path, ...steps], explainIssue(issue, at(value, steps), info, String(steps.at(-1) ?? "")));
    if (typeof steps[0] === "string") delete pruned[steps[0]];
  }
  const second = schema.safeParse(pruned);
  return second.success ? second.data : schema.parse({});
}
