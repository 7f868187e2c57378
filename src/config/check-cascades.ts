import { isWritten, type LoadContext, report } from "./load-context.ts";
import type { EngineSettings, ModelSettings, RouterSettings } from "./settings.ts";

/** Find chains that cannot work: a model after itself, names that nobody serves, more thresholds than judged models, a switch that is off. */
export function checkCascades(
  ctx: LoadContext,
  models: readonly ModelSettings[],
  engines: readonly EngineSettings[],
  router: Pick<RouterSettings, "cascades">,
): void {
  const chains = models.filter(({ cascade }) => cascade.length > 0);
  const known = new Set([...models.map(({ name }) => name), ...engines.map(({ model }) => model.name)]);
  // An adopted engine is asked what it serves; in a router's own file engines are listed elsewhere.
  const knowsAll = engines.length > 0 && engines.every(({ model }) => model.name !== "");
  for (const { name, cascade, cascadeThresholds } of chains) {
    const path = ["models", name, "cascade"];
    const round = findRound(name, models);
    if (round !== undefined) {
      report(ctx, path, {
        problem: `the chain comes back to a model: ${round.join(" → ")}`,
        remedy: "Let each name be followed by larger models only, each once",
      });
      continue;
    }
    for (const model of cascade.filter((each) => !known.has(each))) {
      report(ctx, path, {
        severity: knowsAll ? "error" : "warning",
        problem: `no engine of this file serves "${model}", and it has no [models."${model}"]`,
        remedy: "Write the name of a model that an engine serves",
      });
    }
    if (cascadeThresholds.length > cascade.length) {
      report(ctx, ["models", name, "cascade_threshold"], {
        problem: `it has ${cascadeThresholds.length} thresholds, and ${cascade.length} models of the chain are judged`,
        remedy: "Write one for each model but the last",
      });
    }
  }
  const first = chains[0];
  if (first !== undefined && Object.keys(router.cascades).length === 0) {
    report(ctx, ["models", first.name, "cascade"], {
      severity: "warning",
      problem: "the key does nothing while [router.cascade].enabled is false",
      remedy: "Set [router.cascade].enabled = true",
    });
  }
  if (first === undefined && isWritten(ctx, ["router", "cascade", "enabled"]) && isOn(ctx)) {
    report(ctx, ["router", "cascade", "enabled"], {
      severity: "warning",
      problem: "no model has a chain, so it does nothing",
      remedy: 'Write [models."NAME"].cascade, or remove the key',
    });
  }
}

function isOn(ctx: LoadContext): boolean {
  const { router } = ctx.layers.tree as { router?: { cascade?: { enabled?: unknown } } };
  return router?.cascade?.enabled === true;
}

/** A way from a name back to itself, or a model that a chain names twice. */
function findRound(name: string, models: readonly ModelSettings[]): readonly string[] | undefined {
  const next = new Map(models.map((model) => [model.name, model.cascade]));
  const own = next.get(name) ?? [];
  const twice = own.find((model, i) => own.indexOf(model) !== i);
  if (twice !== undefined) return [name, ...own.slice(0, own.lastIndexOf(twice) + 1)];
  const walked = new Set<string>();
  const walk = (at: string, way: readonly string[]): readonly string[] | undefined => {
    for (const model of next.get(at) ?? []) {
      if (model === name) return [...way, model];
      if (walked.has(model)) continue;
      walked.add(model);
      const found = walk(model, [...way, model]);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return walk(name, [name]);
}
