import { announceEngine, engineHandOver, planEngine } from "../config/plan.ts";
import type { EngineSettings } from "../config/settings.ts";
import { nodeId, type WorkerId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Engine } from "../engines/engine.ts";

/** What of a worker follows from its settings: everything but its state. */
export function describeWorker(id: WorkerId, settings: EngineSettings, engine: Engine): WorkerInfo {
  const handOver =
    settings.role === "both" ? undefined : engineHandOver(settings, planEngine(settings, engine), engine);
  const { blockTokens, upstreamModel, maxModelTokens, kv, ranks, tokenizer } = announceEngine(settings, engine);
  return {
    id,
    node: nodeId(settings.nodeId),
    kind: settings.kind,
    traits: engine.traitsFor?.(settings.options, settings.slot) ?? engine.traits,
    url: settings.url,
    models: settings.model.name === "" ? [] : [settings.model.name],
    role: settings.role,
    kv,
    tokenizer,
    state: "starting",
    reason: "not started",
    epoch: 0,
    ...(ranks === undefined ? {} : { ranks }),
    ...(handOver === undefined ? {} : { handOver }),
    ...(upstreamModel === undefined ? {} : { upstreamModel }),
    ...(blockTokens === undefined ? {} : { blockTokens }),
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

/**
 * An id for each engine, in order: `NODE/MODEL`, with `#2`, `#3` for further engines of the same model on the same node;
 * `NODE/engineN` when the model is not known yet. The same configuration gives the same ids.
 */
export function workerIds(engines: readonly Pick<EngineSettings, "nodeId" | "model">[]): WorkerId[] {
  const taken = new Map<string, number>();
  return engines.map(({ nodeId: node, model }, index) => {
    const name = `${node}/${model.name === "" ? `engine${index}` : model.name}`;
    const count = (taken.get(name) ?? 0) + 1;
    taken.set(name, count);
    return workerId(count === 1 ? name : `${name}#${count}`);
  });
}
