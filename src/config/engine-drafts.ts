import type { Engine } from "../engines/engine.ts";
import type { EngineEntry } from "./engine-entries.ts";
import { type CommonEngine, commonEngineSchema } from "./engine-schema.ts";
import { type LoadContext, parsePart, report } from "./load-context.ts";
import type { EnginePick } from "./pick.ts";
import { nearest } from "./problems.ts";
import { modelByName } from "./resolve-models.ts";
import type { ModelSettings } from "./settings.ts";

/** One engine process to be, before it has an address. */
export interface EngineDraft {
  readonly entry: EngineEntry;
  readonly common: CommonEngine;
  readonly engine: Engine;
  /** Its section, parsed by the engine's own schema. */
  readonly options: unknown;
  readonly spawn: boolean;
  /** Undefined: adopted, and its model is to be asked from it. */
  readonly model: ModelSettings | undefined;
  /** Which of the models that share this entry: the first has the written port and GPUs, the others what follows. */
  readonly nth: number;
}

/** Validate the entries and give each its model or models. */
export function engineDrafts(
  ctx: LoadContext,
  entries: readonly EngineEntry[],
  models: readonly ModelSettings[],
  pick: EnginePick,
): EngineDraft[] {
  const drafts = entries.flatMap((entry) => draftsOf(ctx, entry, models, pick));
  if (pick.model === undefined || entries.length === 0) return drafts;
  const kept = drafts.filter((draft) => draft.model === undefined || draft.model.name === pick.model);
  if (kept.length === 0) reportUnknownPick(ctx, pick.model, drafts);
  return kept.map((draft) => ({ ...draft, nth: 0 }));
}

function draftsOf(
  ctx: LoadContext,
  entry: EngineEntry,
  models: readonly ModelSettings[],
  pick: EnginePick,
): EngineDraft[] {
  const common = parsePart(ctx, entry.path, commonEngineSchema, entry.tree);
  const { kind = common.kind } = entry.tree;
  const engine = ctx.engines.find((each) => each.kind === kind);
  for (const other of ctx.engines) {
    const unused = entry.tree[other.section];
    if (other !== engine && unused !== undefined) parsePart(ctx, [...entry.path, other.section], other.schema, unused);
  }
  // An unknown kind was noted; more about it would be guessing.
  if (engine === undefined) return [];
  const options: unknown = parsePart(ctx, [...entry.path, engine.section], engine.schema, entry.tree[engine.section]);
  if (common.spawn === true && !engine.spawns) {
    report(ctx, [...entry.path, "spawn"], {
      problem: `engine kind "${engine.kind}" is an endpoint that somebody else runs, so cgn cannot start it`,
      remedy: "Remove spawn, or choose another kind",
    });
  }
  const spawn = (common.spawn ?? true) && engine.spawns;
  const chosen = modelsOf(ctx, entry, common, spawn, models, pick);
  return chosen.map((model, nth) => ({ entry, common, engine, options, spawn, model, nth }));
}

/** Which models an entry serves. An adopted engine may have none: it is asked. */
function modelsOf(
  ctx: LoadContext,
  entry: EngineEntry,
  common: CommonEngine,
  spawn: boolean,
  models: readonly ModelSettings[],
  pick: EnginePick,
): (ModelSettings | undefined)[] {
  if (common.model !== undefined) return [namedModel(ctx, entry, common.model, models)];
  if (models.length === 1) return [...models];
  if (models.length === 0 && pick.model !== undefined) return [modelByName(pick.model)];
  if (!spawn) return [undefined];
  if (models.length > 1) {
    if (entry.path.length === 1) return [...models];
    report(ctx, [...entry.path, "model"], {
      problem: `names no model, and there are ${models.length}`,
      remedy: `Write model = "NAME" with one of ${models.map((m) => `"${m.name}"`).join(", ")}`,
    });
    return [];
  }
  report(ctx, [...entry.path, "model"], {
    problem: "the engine has no model to load",
    remedy: 'Add a [models."NAME"] table with path or hf_repo, or set spawn = false to adopt a running engine',
  });
  return [];
}

function namedModel(
  ctx: LoadContext,
  entry: EngineEntry,
  name: string,
  models: readonly ModelSettings[],
): ModelSettings {
  const found = models.find((model) => model.name === name);
  if (found !== undefined || models.length === 0) return found ?? modelByName(name);
  const known = models.map((model) => model.name);
  const near = nearest(name, known);
  report(ctx, [...entry.path, "model"], {
    problem: `there is no [models.${JSON.stringify(name)}]`,
    remedy:
      near === undefined
        ? `Add that table, or use one of ${known.map((each) => `"${each}"`).join(", ")}`
        : `Did you mean "${near}"? Otherwise add that table`,
  });
  return modelByName(name);
}

function reportUnknownPick(ctx: LoadContext, name: string, drafts: readonly EngineDraft[]): void {
  const known = drafts.map((draft) => draft.model?.name ?? "");
  ctx.layers.problems.push({
    severity: "error",
    path: "",
    file: "--model",
    problem: `no engine of this configuration loads "${name}"`,
    remedy: known.length === 0 ? "Add an [engine]" : `Use one of ${known.map((each) => `"${each}"`).join(", ")}`,
  });
}
