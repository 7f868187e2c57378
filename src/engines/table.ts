import { type EngineKind, ROLES, type Role } from "../core/engine-kind.ts";
import { KV_OFFLOADS, type KvOffload } from "../core/kv-offload.ts";
import type { EnvValue, LaunchPlan } from "../core/launch-plan.ts";
import { parseUserArgs } from "./args.ts";
import type { Engine } from "./engine.ts";
import { ENGINES } from "./registry.ts";
import { sampleInput } from "./sample-input.ts";
import { notAsked, type Verified, verifiedBy } from "./verified.ts";

interface Place {
  readonly engine: EngineKind;
  readonly kvOffload: KvOffload;
  readonly role: Role;
}

export interface SupportedRow extends Place {
  readonly supported: true;
  /** What the cell adds to the engine's command line: words that its launch with offload `none` and role `both` does not have. */
  readonly args: readonly string[];
  /** What it adds to the environment, or sets otherwise. */
  readonly env: Readonly<Record<string, EnvValue>>;
  readonly notes: readonly string[];
  /** Which real programs took it; empty: unverified. */
  readonly verified: readonly Verified[];
  /** What could not be asked on a machine without a GPU, and why; left out where nothing was. */
  readonly notAsked?: string;
}

export interface RefusedRow extends Place {
  readonly supported: false;
  readonly reason: string;
}

/** One cell of the engine × offload × role table. */
export type TableRow = SupportedRow | RefusedRow;

/**
 * The table, from the engines themselves: kinds in the registry's order, offloads and roles in the order of the contract.
 * Arguments are those of a sample host (host 10.0.0.5, side ports from 20000) and of each engine's default options.
 */
export function tableRows(engines: readonly Engine[] = ENGINES): readonly TableRow[] {
  return engines.flatMap((engine) =>
    KV_OFFLOADS.flatMap((offload) => ROLES.map((role) => rowOf(engine, offload, role))),
  );
}

/** What an engine accepts in a role; in any role when none is given. */
export function acceptedOffloads(engine: Engine, role?: Role): readonly KvOffload[] {
  const roles = role === undefined ? ROLES : [role];
  return KV_OFFLOADS.filter((offload) => roles.some((each) => engine.cell(offload, each).supported));
}

function rowOf(engine: Engine, kvOffload: KvOffload, role: Role): TableRow {
  const place = { engine: engine.kind, kvOffload, role };
  const cell = engine.cell(kvOffload, role);
  if (!cell.supported) return { ...place, supported: false, reason: cell.reason };
  const plan = samplePlan(engine, kvOffload, role);
  const base = samplePlan(engine, "none", "both");
  const limit = notAsked(engine, kvOffload, role);
  return {
    ...place,
    supported: true,
    args: addedArgs(plan, base),
    env: addedEnv(plan, base),
    notes: cell.notes,
    verified: verifiedBy(engine, kvOffload, role),
    ...(limit === undefined ? {} : { notAsked: limit }),
  };
}

function samplePlan(engine: Engine, offload: KvOffload, role: Role): LaunchPlan {
  return engine.launch(sampleInput(engine.schema.parse({}), { offload, role }));
}

/** Flag by flag, with its values: a flag that both have with other values counts as added. */
function addedArgs(plan: LaunchPlan, base: LaunchPlan): string[] {
  const known = new Set(parseUserArgs(base.argv).map((flag) => flag.words.join("\n")));
  return parseUserArgs(plan.argv)
    .filter((flag) => !known.has(flag.words.join("\n")))
    .flatMap((flag) => flag.words);
}

function addedEnv(plan: LaunchPlan, base: LaunchPlan): Record<string, EnvValue> {
  const isNew = ([name, value]: [string, EnvValue]): boolean =>
    JSON.stringify(base.env[name]) !== JSON.stringify(value);
  return Object.fromEntries(Object.entries(plan.env).filter(isNew));
}
