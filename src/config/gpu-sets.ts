import { isCgnError } from "../core/errors.ts";
import { excludes } from "../core/swap-rules.ts";
import type { EngineDraft } from "./engine-drafts.ts";
import type { KeyPath } from "./key-path.ts";
import { isTable } from "./layers.ts";
import { isWritten, type LoadContext, placeText, report } from "./load-context.ts";
import { isOwnLauncher, launchInput } from "./plan.ts";
import type { EngineSettings, SwapSettings } from "./settings.ts";

/**
 * Give engines for which no GPUs were written some of their own, where the host's are known and another engine might take the same.
 *
 * A single engine sees all GPUs, as it would without cgn. Engines that are loaded on demand may get the same GPUs: they take turns.
 */
export function assignGpuSets(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  engines: readonly EngineSettings[],
): EngineSettings[] {
  const { gpus: host = [] } = ctx.host;
  const spawned = engines.filter(({ spawn }) => spawn).length;
  if (host.length === 0 || spawned < 2) return [...engines];
  const taken = new Set(engines.flatMap(({ slot }) => slot.gpus ?? []));
  const assigned = [...engines];
  // Those that stay loaded choose first; what they leave is shared by those that take turns.
  for (const onDemand of [false, true]) {
    const free = host.filter((gpu) => !taken.has(gpu));
    for (const [n, settings] of engines.entries()) {
      if (settings.slot.gpus !== undefined || isOnDemand(ctx, settings) !== onDemand) continue;
      const count = gpusWanted(drafts[n]!, settings);
      if (count === 0) continue;
      const own = free.slice(0, count);
      if (own.length < count) reportTooFew(ctx, settings, count, own.length, host.length);
      else {
        assigned[n] = { ...settings, slot: { ...settings.slot, gpus: own } };
        if (!onDemand) for (const gpu of free.splice(0, count)) taken.add(gpu);
      }
    }
  }
  return assigned;
}

/** Was it written that it is loaded when somebody asks for it? */
function isOnDemand(ctx: LoadContext, { ttlMs, preload, group, model }: EngineSettings): boolean {
  if (ttlMs !== undefined || preload === false) return true;
  const { swap } = ctx.layers.tree;
  const groups = isTable(swap) && isTable(swap.groups) ? swap.groups : {};
  return Object.entries(groups).some(
    ([name, each]) => name === group || (isTable(each) && [each.members].flat().includes(model.name)),
  );
}

/** How many GPUs an engine computes on, as its own launch says; 0: none, or the launch is refused (which is told elsewhere). */
function gpusWanted({ engine }: EngineDraft, settings: EngineSettings): number {
  if (!settings.spawn || settings.slot.platform === "cpu" || settings.slot.platform === "metal") return 0;
  try {
    const input = launchInput(settings);
    const plan = engine.launch(input);
    // A simulated engine computes on none.
    if (isOwnLauncher(settings, plan.argv[0] ?? "")) return 0;
    return engine.needs?.(input, plan).gpu?.count ?? 0;
  } catch (error) {
    if (isCgnError(error)) return 0;
    throw error;
  }
}

function reportTooFew(
  ctx: LoadContext,
  { path, model }: EngineSettings,
  wanted: number,
  left: number,
  all: number,
): void {
  const gpus = wanted === 1 ? "a GPU" : `${wanted} GPUs`;
  report(ctx, [...path, "gpus"], {
    problem: `the engine of "${model.name}" computes on ${gpus}, and ${left} of this host's ${all} are left for it`,
    remedy:
      "Lower tp, leave an engine out, let engines take turns ([swap] and ttl), or write gpus and share_gpus = true",
  });
}

/**
 * Refuse engines that would be on one GPU at once. Those that take turns (`excludes()`), and those of one swap group that may live
 * together, are meant so.
 */
export function checkSharedGpus(ctx: LoadContext, engines: readonly EngineSettings[], swap: SwapSettings): void {
  for (const [n, b] of engines.entries()) {
    for (const a of engines.slice(0, n)) {
      const both = (b.slot.gpus ?? []).filter((gpu) => a.slot.gpus?.includes(gpu));
      if (both.length === 0 || (a.shareGpus && b.shareGpus)) continue;
      if (areApart(a, b, swap)) continue;
      report(ctx, keyOf(ctx, b), {
        problem: `GPU ${both.join(", ")} is already a GPU of "${a.model.name}", by ${placeText(ctx, keyOf(ctx, a))}`,
        remedy:
          "Give each engine GPUs of its own, let different models take turns ([swap]), or write share_gpus = true for both and " +
          "lower each one's share of GPU memory",
      });
      break;
    }
  }
}

/** Are they never loaded at once, or in a group whose members may be? */
function areApart(a: EngineSettings, b: EngineSettings, swap: SwapSettings): boolean {
  if (a.onDemand === undefined || b.onDemand === undefined) return false;
  const together = a.onDemand.group !== undefined && a.onDemand.group.name === b.onDemand.group?.name;
  return together || excludes({ model: a.model.name, ...a.onDemand }, { model: b.model.name, ...b.onDemand }, swap);
}

/** The key that says which GPUs an engine has. */
function keyOf(ctx: LoadContext, { path }: EngineSettings): KeyPath {
  const keys: KeyPath[] = [
    [...path, "gpus"],
    [...path, "gpu_index"],
    ["agent", "gpu_index"],
  ];
  return keys.find((key) => isWritten(ctx, key)) ?? path;
}
