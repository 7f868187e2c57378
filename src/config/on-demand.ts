import type { CommonEngine } from "./engine-schema.ts";
import { isTable } from "./layers.ts";
import type { LoadContext } from "./load-context.ts";

/**
 * Did the user ask for an engine to be loaded with its first request, and unloaded for others? By a `ttl`, by `preload = false`, by a
 * swap group, or by counting it in the memory budget.
 */
export function isAskedOnDemand(
  ctx: LoadContext,
  common: Pick<CommonEngine, "ttl" | "preload" | "group" | "memory_gib">,
  model: string | undefined,
): boolean {
  if (common.ttl !== undefined || common.preload === false) return true;
  const { swap } = ctx.layers.tree;
  if (!isTable(swap)) return false;
  if (swap.memory_gib !== undefined && common.memory_gib !== undefined) return true;
  if (!isTable(swap.groups)) return false;
  return Object.entries(swap.groups).some(([name, group]) => {
    const members = isTable(group) ? group.members : undefined;
    return name === common.group || (Array.isArray(members) ? members.includes(model) : members === model);
  });
}

/** With a `[swap]` section, models that share a GPU take turns; without one, that is a mistake. */
export function hasSwap(ctx: LoadContext): boolean {
  return isTable(ctx.layers.tree.swap);
}
