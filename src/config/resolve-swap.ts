import { excludes, type SwapGroup } from "../core/swap-rules.ts";
import { GIB } from "../core/units.ts";
import type { Section } from "./config-schema.ts";
import { isTable } from "./layers.ts";
import { isWritten, type LoadContext, placeText, report } from "./load-context.ts";
import { nearest } from "./problems.ts";
import type { EngineOnDemand, EngineSettings, SwapSettings } from "./settings.ts";

export interface ResolvedSwap {
  readonly engines: readonly EngineSettings[];
  readonly swap: SwapSettings;
}

/** Which engines are loaded on demand, with whom they take turns, and which of them are loaded at the start. */
export function resolveSwap(
  ctx: LoadContext,
  engines: readonly EngineSettings[],
  section: Section<"swap">,
): ResolvedSwap {
  const swap: SwapSettings = {
    minResidencyMs: section.min_residency,
    ...(section.memory_gib === undefined ? {} : { memoryBytes: Math.floor(section.memory_gib * GIB) }),
  };
  checkNames(ctx, engines, section);
  const groups = groupsOf(ctx, engines, section);
  const resolved = engines.map((engine, n) => {
    const onDemand = placeOf(ctx, engine, engines, groups[n], swap);
    return onDemand === undefined ? engine : { ...engine, onDemand: withPreload(engine, onDemand, section) };
  });
  checkBudget(ctx, resolved, swap);
  checkPreloads(ctx, resolved, swap);
  return { engines: resolved, swap };
}

/** Can it be loaded and unloaded at will? Not what somebody else starts, nor half of a prefill-decode pair. */
const canSwap = (engine: EngineSettings): boolean => engine.spawn && engine.role === "both";

/** Its place among the others; undefined for an engine that runs all the time. */
function placeOf(
  ctx: LoadContext,
  engine: EngineSettings,
  engines: readonly EngineSettings[],
  group: SwapGroup | undefined,
  swap: SwapSettings,
): EngineOnDemand | undefined {
  const counted = swap.memoryBytes !== undefined && engine.memoryBytes !== undefined;
  const asked = engine.ttlMs !== undefined || engine.preload === false || group !== undefined || counted;
  if (!canSwap(engine)) {
    if (asked) warnAlways(ctx, engine);
    return undefined;
  }
  if (!asked && !(hasSwap(ctx) && engines.some((other) => sharesGpu(engine, other)))) return undefined;
  return {
    // Those that it may share with another are no reason to unload it.
    gpus: engine.shareGpus ? [] : (engine.slot.gpus ?? []),
    memoryBytes: counted ? engine.memoryBytes : 0,
    ...(group === undefined ? {} : { group }),
  };
}

function warnAlways(ctx: LoadContext, engine: EngineSettings): void {
  const keys = ["ttl", "preload", "memory_gib"].filter((key) => isWritten(ctx, [...engine.path, key]));
  const why = engine.spawn ? `has role "${engine.role}"` : "is started by somebody else";
  report(ctx, keys[0] === undefined ? engine.path : [...engine.path, keys[0]], {
    severity: "warning",
    problem: `the engine of "${engine.model.name}" ${why}, so it is not loaded on demand`,
    remedy: keys[0] === undefined ? "Take it out of its swap group" : `Remove ${keys.join(" and ")}`,
  });
}

/** With a `[swap]` section models that share a GPU take turns; without one that is a mistake, which is told elsewhere. */
const hasSwap = (ctx: LoadContext): boolean => isTable(ctx.layers.tree.swap);

/** Two models on one GPU take turns; two engines of one model there were meant so. */
function sharesGpu(a: EngineSettings, b: EngineSettings): boolean {
  if (a === b || !canSwap(a) || !canSwap(b) || a.model.name === b.model.name) return false;
  if (a.shareGpus && b.shareGpus) return false;
  return (a.slot.gpus ?? []).some((gpu) => b.slot.gpus?.includes(gpu) === true);
}

/** The group of each engine: the one that lists its model, or that its own `group` names. */
function groupsOf(
  ctx: LoadContext,
  engines: readonly EngineSettings[],
  { groups }: Section<"swap">,
): (SwapGroup | undefined)[] {
  return engines.map((engine) => {
    const found = Object.entries(groups).filter(
      ([name, { members }]) => engine.group === name || members.includes(engine.model.name),
    );
    const [first, second] = found;
    if (first !== undefined && second !== undefined) {
      report(ctx, ["swap", "groups", second[0]], {
        problem: `the engine of "${engine.model.name}" is in group "${first[0]}" already (${placeText(ctx, ["swap", "groups", first[0]])})`,
        remedy: "Leave it in one group",
      });
    }
    if (first === undefined) return undefined;
    const [name, { swap, exclusive, persistent }] = first;
    return { name, swap, exclusive, persistent };
  });
}

/** Members and preloads must be models of engines here. A router's file has no engines and may name them all the same. */
function checkNames(ctx: LoadContext, engines: readonly EngineSettings[], { groups, preload }: Section<"swap">): void {
  if (engines.length === 0) return;
  const known = [...new Set(engines.map(({ model }) => model.name))];
  const check = (path: readonly string[], names: readonly string[]): void => {
    for (const name of names.filter((each) => !known.includes(each))) {
      const near = nearest(name, known);
      report(ctx, [...path], {
        problem: `no engine of this file loads "${name}"`,
        remedy:
          near === undefined ? `Name one of ${known.map((each) => `"${each}"`).join(", ")}` : `Did you mean "${near}"?`,
      });
    }
  };
  check(["swap", "preload"], preload);
  for (const [name, { members }] of Object.entries(groups)) check(["swap", "groups", name, "members"], members);
}

function withPreload(engine: EngineSettings, place: EngineOnDemand, { preload }: Section<"swap">): EngineOnDemand {
  const listed = preload.indexOf(engine.model.name);
  if (listed >= 0) return { ...place, preload: listed };
  return engine.preload === true ? { ...place, preload: preload.length } : place;
}

function checkBudget(ctx: LoadContext, engines: readonly EngineSettings[], { memoryBytes }: SwapSettings): void {
  if (memoryBytes === undefined || engines.length === 0) return;
  const counted = engines.filter(({ onDemand }) => onDemand !== undefined && onDemand.memoryBytes > 0);
  if (counted.length === 0) {
    report(ctx, ["swap", "memory_gib"], {
      severity: "warning",
      problem: "no engine says what it takes, so the budget limits nothing",
      remedy: "Write memory_gib in [engine] or in each of [[engines]]",
    });
  }
  for (const engine of counted) {
    const takes = engine.onDemand?.memoryBytes ?? 0;
    if (takes <= memoryBytes) continue;
    report(ctx, [...engine.path, "memory_gib"], {
      problem: `the engine takes ${takes / GIB} GiB, and [swap].memory_gib is ${memoryBytes / GIB}: it could never be loaded`,
      remedy: "Raise [swap].memory_gib, or choose a smaller model or context",
    });
  }
}

/** What is loaded at the start must be able to stay. */
function checkPreloads(ctx: LoadContext, engines: readonly EngineSettings[], swap: SwapSettings): void {
  const placed = engines.flatMap(({ model, onDemand }) =>
    onDemand?.preload === undefined ? [] : [{ model: model.name, ...onDemand }],
  );
  for (const [n, a] of placed.entries()) {
    const b = placed.slice(0, n).find((other) => excludes(a, other, swap));
    if (b === undefined) continue;
    const path = isWritten(ctx, ["swap", "preload"]) ? ["swap", "preload"] : ["swap"];
    report(ctx, path, {
      severity: "warning",
      problem: `"${b.model}" and "${a.model}" are both loaded at the start and take turns: the second one unloads the first`,
      remedy: "Preload one of them, or put them into a group with swap = false",
    });
  }
}
