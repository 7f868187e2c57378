import type { Problem } from "../../core/errors.ts";
import type { Finding } from "../../core/findings.ts";
import { type KeyPath, parseKeyPath } from "../key-path.ts";
import { isWritten, type LoadContext, originOf } from "../load-context.ts";
import { problemAt } from "../problems.ts";

/**
 * A finding as a problem of the configuration: at the first of its keys that somebody wrote, else where the first would stand.
 * A finding without keys is the host's, and names no place.
 *
 * @param entry the engine's table: keys that start with `engine` are looked for there
 * @param name set where a message must say which engine it is about
 */
export function placedFinding(ctx: LoadContext, entry: KeyPath, finding: Finding, name?: string): Problem {
  const { code, severity, what, remedy, keys, fix } = finding;
  const extra = { code, ...(fix === undefined ? {} : { fix }) };
  if (keys.length === 0) return { severity, path: "", problem: what, remedy, ...extra };
  const paths = keys.map((key) => pathOf(key, entry));
  const path = paths.find((each) => isWritten(ctx, each)) ?? paths[0] ?? entry;
  const problem = name === undefined ? what : `${name}: ${what}`;
  return { ...problemAt(path, originOf(ctx, path), { severity, problem, remedy }, ctx.file), ...extra };
}

function pathOf(key: string, entry: KeyPath): KeyPath {
  const [first, ...rest] = parseKeyPath(key) ?? [];
  return first === "engine" ? [...entry, ...rest] : first === undefined ? entry : [first, ...rest];
}
