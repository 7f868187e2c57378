import { CgnError } from "../core/errors.ts";
import type { Policy } from "./decision.ts";
import {
  createLeastLoadedPolicy,
  createPrefixHashPolicy,
  createRandomPolicy,
  createRoundRobinPolicy,
  createWeightedPolicy,
  type ScoreWeights,
} from "./policies-plain.ts";
import { createTtftPolicy } from "./policy-ttft.ts";

export interface PolicyOptions {
  /** For `weighted`. */
  readonly weights: ScoreWeights;
  /** For `random`. */
  readonly seed: number;
}

const MAKERS = {
  ttft: () => createTtftPolicy(),
  weighted: (o: PolicyOptions) => createWeightedPolicy(o.weights),
  round_robin: () => createRoundRobinPolicy(),
  least_loaded: () => createLeastLoadedPolicy(),
  prefix_hash: () => createPrefixHashPolicy(),
  random: (o: PolicyOptions) => createRandomPolicy(o.seed),
} as const;

/** Every name that `[router].policy` may have; the first is the default. */
export const POLICY_NAMES = Object.keys(MAKERS) as readonly (keyof typeof MAKERS)[];

/** Weights of the old system, where none are written. */
export const DEFAULT_POLICY_OPTIONS: PolicyOptions = {
  weights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
  seed: 1,
};

/**
 * A fresh policy with a cursor of its own.
 * @throws CgnError CONFIG_INVALID for a name that there is not
 */
export function createPolicy(name: string, options: PolicyOptions = DEFAULT_POLICY_OPTIONS): Policy {
  if (Object.hasOwn(MAKERS, name)) return MAKERS[name as keyof typeof MAKERS](options);
  const problem = `"${name}" is no routing policy`;
  const remedy = `Use one of ${POLICY_NAMES.join(", ")}`;
  throw new CgnError("CONFIG_INVALID", `Cannot route by policy: ${problem}. ${remedy}`, {
    problems: [{ severity: "error", path: "router.policy", problem, remedy }],
  });
}
