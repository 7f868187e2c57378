import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { isTable, type Tree } from "./layers.ts";
import { isWritten, type LoadContext, report } from "./load-context.ts";
import type { EnginePick } from "./pick.ts";
import type { Origin } from "./problems.ts";

/** One engine as written: `[engine]`, or an entry of `[[engines]]` with what it has from `[engine]`. */
export interface EngineEntry {
  /** `["engine"]` or `["engines", i]`: its keys' origins are found below it. */
  readonly path: KeyPath;
  readonly tree: Tree;
}

/** Keys of `[engine]` that belong to one process, so that entries of `[[engines]]` do not take them over. */
const NOT_INHERITED: ReadonlySet<string> = new Set([
  "url",
  "port",
  "model",
  "node_id",
  "gpu_index",
  "gpus",
  "kv_events",
  "kv_replay",
  "start_after",
]);

/**
 * The engines that the configuration asks for. None when it has no `[engine]` and no `[[engines]]` (a router's file); old
 * agent files that name `vllm_cmd` or `vllm_url`, or an `[agent]` with `[models]`, mean one of the default kind.
 */
export function engineEntries(ctx: LoadContext, pick: EnginePick): EngineEntry[] {
  const { tree } = ctx.layers;
  checkTypes(ctx);
  const common = isTable(tree.engine) ? tree.engine : undefined;
  const entries: EngineEntry[] = [];
  if (Array.isArray(tree.engines) && tree.engines.length > 0) {
    tree.engines.forEach((own: unknown, n) => {
      const path = ["engines", n];
      const inherited = inheritable(ctx, common ?? {}, path);
      entries.push({ path, tree: merged(inherited, isTable(own) ? own : {}) });
    });
  } else if (common !== undefined || impliesEngine(ctx) || pick.kind !== undefined) {
    if (common === undefined) placeImplied(ctx);
    entries.push({ path: ["engine"], tree: withLegacy(ctx, { ...common }) });
  }
  for (const entry of entries) applyPick(ctx, entry, pick);
  return entries;
}

/** `[engine]` is one table and `[[engines]]` a list of them; the two are easily mixed up. */
function checkTypes(ctx: LoadContext): void {
  const { engine, engines } = ctx.layers.tree;
  if (engine !== undefined && !isTable(engine)) {
    const problem = Array.isArray(engine) ? "is a list" : "is no table";
    report(ctx, ["engine"], { problem, remedy: "Write [engine] for one engine, or [[engines]] for each of several" });
  }
  if (engines === undefined) return;
  if (!Array.isArray(engines)) {
    report(ctx, ["engines"], {
      problem: "is not a list",
      remedy: "Write [[engines]], with two brackets, for each engine",
    });
    return;
  }
  for (const [n, entry] of engines.entries()) {
    if (!isTable(entry))
      report(ctx, ["engines", n], { problem: "is no table", remedy: "Write [[engines]] for each engine" });
  }
}

function impliesEngine(ctx: LoadContext): boolean {
  if (isWritten(ctx, ["agent", "vllm_cmd"]) || isWritten(ctx, ["agent", "vllm_url"])) return true;
  return isWritten(ctx, ["agent"]) && isWritten(ctx, ["models"]);
}

/** What is wrong with an engine that only `[agent]` implies is told there. */
function placeImplied(ctx: LoadContext): void {
  const keys = ["agent.vllm_cmd", "agent.vllm_url", "agent"];
  const origin = keys.map((key) => ctx.layers.origins.get(key)).find((each) => each !== undefined);
  if (origin !== undefined && origin.from !== "default")
    ctx.layers.origins.set("engine", { ...origin, path: "engine" });
}

/** The keys of `[engine]` that an entry takes over; their origins are noted for the entry too. */
function inheritable(ctx: LoadContext, common: Tree, path: KeyPath): Tree {
  const kept = Object.fromEntries(Object.entries(common).filter(([key]) => !NOT_INHERITED.has(key)));
  const base = formatKeyPath(path);
  for (const [name, origin] of [...ctx.layers.origins]) {
    const key = /^engine\.([A-Za-z0-9_-]+)/.exec(name)?.[1];
    if (key === undefined || NOT_INHERITED.has(key)) continue;
    const own = base + name.slice("engine".length);
    if (!ctx.layers.origins.has(own)) ctx.layers.origins.set(own, origin);
  }
  return kept;
}

/** Tables are merged key by key, all else is the entry's own. */
function merged(base: Tree, own: Tree): Tree {
  const result: Tree = { ...base };
  for (const [key, value] of Object.entries(own)) {
    const below = result[key];
    result[key] = isTable(below) && isTable(value) ? merged(below, value) : value;
  }
  return result;
}

/** Old agent files: `vllm_url` is the engine's URL, and alone it means an engine that somebody else started. */
function withLegacy(ctx: LoadContext, tree: Tree): Tree {
  const agent = isTable(ctx.layers.tree.agent) ? ctx.layers.tree.agent : {};
  if (agent.vllm_url === undefined || tree.url !== undefined) return tree;
  copyOrigin(ctx, ["agent", "vllm_url"], ["engine", "url"]);
  const adopts = agent.vllm_cmd === undefined && ctx.layers.tree.engine === undefined;
  return { ...tree, url: agent.vllm_url, ...(adopts ? { spawn: false } : {}) };
}

function copyOrigin(ctx: LoadContext, from: KeyPath, to: KeyPath): void {
  const origin = ctx.layers.origins.get(formatKeyPath(from));
  if (origin !== undefined) ctx.layers.origins.set(formatKeyPath(to), origin);
}

/** `--kind`, `--role` and `--kv-offload` hold for every engine of the file. */
function applyPick(ctx: LoadContext, entry: EngineEntry, pick: EnginePick): void {
  const set = (key: string, value: string | undefined, flag: string): void => {
    if (value === undefined) return;
    entry.tree[key] = value;
    const path = [...entry.path, key];
    const origin: Origin = { from: "flag", flag, path: formatKeyPath(path) };
    ctx.layers.origins.set(formatKeyPath(path), origin);
  };
  set("kind", pick.kind, "--kind");
  set("role", pick.role, "--role");
  set("kv_offload", pick.kvOffload, "--kv-offload");
}
