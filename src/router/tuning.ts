import type { RouterSettings } from "../config/settings.ts";
import type { Policy } from "../routing/decision.ts";
import { createPolicy } from "../routing/policies.ts";
import type { Admissions } from "./admit.ts";

/** The part of `[router]` that holds from the moment it is changed. */
export const TUNED = [
  "policy",
  "scoreWeights",
  "admission",
  "cascades",
] as const satisfies readonly (keyof RouterSettings)[];

/** Without `cascades` they stay: what all routers of a cluster share has none. */
export type TunedSettings = Omit<Pick<RouterSettings, (typeof TUNED)[number]>, "cascades"> &
  Partial<Pick<RouterSettings, "cascades">>;

/** How requests are chosen for and let in, now: what a reload changes without a restart. */
export class Tuning {
  #settings: TunedSettings;
  #cascades: RouterSettings["cascades"];
  /** By model: policies that take turns do so for each. */
  #policies = new Map<string, Policy>();

  /** @throws CgnError CONFIG_INVALID for a policy that there is not: at the start, not at the first request */
  constructor(settings: TunedSettings) {
    makePolicy(settings);
    this.#settings = settings;
    this.#cascades = settings.cascades ?? {};
  }

  readonly policy = (name: string): Policy => {
    let found = this.#policies.get(name);
    if (found === undefined) this.#policies.set(name, (found = makePolicy(this.#settings)));
    return found;
  };

  /** Name of the policy that holds now. */
  get policyName(): string {
    return this.#settings.policy;
  }

  /** Names that stand for several models. A request that has begun keeps its chain. */
  get cascades(): RouterSettings["cascades"] {
    return this.#cascades;
  }

  get admission(): TunedSettings["admission"] {
    return this.#settings.admission;
  }

  get perReplica(): number | undefined {
    return this.#settings.admission.maxConcurrentPerReplica;
  }

  get ttftSloMs(): number | undefined {
    return this.#settings.admission.ttftSloMs;
  }

  /** Hold by other settings from the next request on. What was learnt stays. @throws CgnError CONFIG_INVALID; nothing has changed then */
  retune(settings: TunedSettings, admissions: Admissions): void {
    makePolicy(settings);
    this.#settings = settings;
    if (settings.cascades !== undefined) this.#cascades = settings.cascades;
    this.#policies = new Map();
    admissions.limit(settings.admission);
  }
}

function makePolicy({ policy, scoreWeights }: TunedSettings): Policy {
  return createPolicy(policy, { weights: scoreWeights, seed: 1 });
}
