import type { HostNeeds, ModelNeed } from "../core/host-needs.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { ModelSpec } from "./engine.ts";

/** Decimal gigabytes, as SGLang counts. */
export const GB = 1e9;

/** Needs of an engine that has no more than a program and a model; each engine's `requirements.ts` lays its own over it. */
export function plainNeeds(plan: LaunchPlan, section: string, install: string): HostNeeds {
  return {
    program: plan.argv[0] ?? "",
    programKeys: [`engine.${section}.binary`, `engine.${section}`, "engine.kind"],
    install,
    packages: [],
    badVersions: [],
    memory: [],
    disks: [],
    sharedMemoryBytes: 0,
    locksMemory: false,
    refusedVariables: [],
    fileVariables: [],
  };
}

/** What is loaded, and which key says so. A written path is a file or folder here; the engines' plans require it. */
export function modelNeed(model: ModelSpec, layout: ModelNeed["layout"]): ModelNeed {
  const key = `models.${JSON.stringify(model.name)}`;
  if (model.path !== undefined) return { path: model.path, layout, keys: [`${key}.path`, key] };
  return { repo: model.hfRepo ?? model.name, layout, keys: [`${key}.hf_repo`, key] };
}
