import { routerSchema } from "./router-schema.ts";
import type { RouterSettings } from "./settings.ts";

/** What of `[router]` all routers of a cluster may have in common. */
export type SharedTuning = Pick<RouterSettings, "policy" | "scoreWeights" | "admission">;

type Value = { readonly type: "number" | "text"; readonly mayBeNone?: true };

/** Keys of which a value may be kept for all routers, as files spell them. */
const KEYS: Readonly<Record<string, Value>> = {
  "router.policy": { type: "text" },
  "router.score_weights.kv": { type: "number" },
  "router.score_weights.load": { type: "number" },
  "router.score_weights.power": { type: "number" },
  "router.score_weights.capacity": { type: "number" },
  "router.admission.max_queue": { type: "number", mayBeNone: true },
  "router.admission.ttft_slo": { type: "text", mayBeNone: true },
  "router.admission.max_concurrent_per_replica": { type: "number", mayBeNone: true },
  "router.admission.queue_timeout": { type: "text", mayBeNone: true },
};

export const SHARED_KEYS: readonly string[] = Object.keys(KEYS);

/** Takes a limit away that files have. */
const NONE = "none";

const FIELDS = {
  max_queue: "maxQueue",
  ttft_slo: "ttftSloMs",
  max_concurrent_per_replica: "maxConcurrentPerReplica",
  queue_timeout: "queueTimeoutMs",
} as const;

/** One value that cannot be used. */
export interface SharedProblem {
  readonly key: string;
  readonly problem: string;
}

/**
 * Lay values that all routers share over what a file says. One that cannot be used is left out and told.
 * @param values texts by key, as `cgn config set` takes them
 */
export function overlayShared(
  base: SharedTuning,
  values: ReadonlyMap<string, string>,
): { readonly tuning: SharedTuning; readonly problems: readonly SharedProblem[] } {
  let tuning = base;
  const problems: SharedProblem[] = [];
  for (const [key, text] of values) {
    const next = overlayOne(tuning, key, text);
    if ("problem" in next) problems.push({ key, problem: next.problem });
    else tuning = next.tuning;
  }
  return { tuning, problems };
}

function overlayOne(
  base: SharedTuning,
  key: string,
  text: string,
): { readonly tuning: SharedTuning } | { readonly problem: string } {
  const kind = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined;
  if (kind === undefined)
    return { problem: `"${key}" is no key that routers share. There is ${SHARED_KEYS.join(", ")}` };
  const [, section = "", field = ""] = key.split(".");
  if (kind.mayBeNone && text === NONE) {
    const { [FIELDS[field as keyof typeof FIELDS]]: _gone, ...admission } = base.admission;
    return { tuning: { ...base, admission } };
  }
  const value = kind.type === "number" && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  const parsed = PARTS.safeParse(field === "" ? { [section]: value } : { [section]: { [field]: value } });
  if (!parsed.success) {
    const said = parsed.error.issues.map(({ message }) => message).join("; ");
    return { problem: `"${text}" cannot be the value of ${key}: ${said}` };
  }
  const { policy, score_weights: weights, admission } = parsed.data;
  if (section === "policy") return { tuning: { ...base, policy } };
  if (section === "score_weights") {
    const name = field as keyof SharedTuning["scoreWeights"];
    return { tuning: { ...base, scoreWeights: { ...base.scoreWeights, [name]: weights[name] } } };
  }
  const name = field as keyof typeof FIELDS;
  return { tuning: { ...base, admission: { ...base.admission, [FIELDS[name]]: admission[name] } } };
}

const PARTS = routerSchema.pick({ policy: true, score_weights: true, admission: true });
