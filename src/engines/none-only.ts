import type { Role } from "../core/engine-kind.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { PlanWarning } from "../core/launch-plan.ts";
import type { ModelSpec, OffloadCell } from "./engine.ts";

/**
 * The cells of an engine that keeps its KV cache to itself: offload `none`, role `both`, nothing else.
 *
 * @param name - the engine, as the first words of a sentence
 */
export function noneOnlyCell(name: string, offload: KvOffload, role: Role): OffloadCell {
  const reasons: string[] = [];
  if (offload !== "none") reasons.push(`${name} has no KV connector that ${CONNECTORS[offload]}: it accepts only none`);
  if (role !== "both") {
    reasons.push(`${name} serves whole requests and can neither hand KV over nor take it over: the role must be both`);
  }
  if (reasons.length > 0) return { supported: false, reason: reasons.join(". ") };
  return { supported: true, notes: ["The KV cache stays inside the engine's own process"] };
}

const CONNECTORS: Readonly<Record<Exclude<KvOffload, "none">, string>> = {
  nixl: "NIXL could transfer with",
  lmcache: "LMCache could plug into",
  hicache: "HiCache could be (it is SGLang's hierarchical cache)",
  kvbm: "KVBM could plug into",
};

/** `tp` counts ranks of vLLM and SGLang; here it changes nothing, and that is said. */
export function tensorParallelWarnings(name: string, model: ModelSpec): PlanWarning[] {
  if (model.tp <= 1) return [];
  const message = `tp = ${model.tp} has no effect: ${name} has no tensor-parallel degree of that kind`;
  return [{ code: "tp-unused", message, remedy: "Remove tp from the model" }];
}
