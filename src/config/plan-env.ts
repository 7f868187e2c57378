import type { EnvValue, LaunchPlan, PlanReason, PlanWarning } from "../core/launch-plan.ts";

/** Lay what the user wrote (`[engine].env`) over the environment of a plan and of its sidecars; what it replaces is said. */
export function withEnv(plan: LaunchPlan, env: Readonly<Record<string, EnvValue>>): LaunchPlan {
  const names = Object.keys(env);
  if (names.length === 0) return plan;
  const reasons: PlanReason[] = names.map((arg) => ({ arg, why: "Written by the user", source: "[engine].env" }));
  const replaced = names.filter((name) => plan.env[name] !== undefined && plan.env[name] !== env[name]);
  const warnings: PlanWarning[] = replaced.map((name) => ({
    code: "env-replaced",
    message: `env.${name} replaces what cgn renders (${name}=${textOf(plan.env[name])})`,
    remedy: `Remove env.${name} unless it is meant`,
  }));
  return {
    ...plan,
    env: { ...plan.env, ...env },
    sidecars: plan.sidecars.map((sidecar) => ({ ...sidecar, env: { ...sidecar.env, ...env } })),
    warnings: [...plan.warnings, ...warnings],
    reasons: [...plan.reasons.filter(({ arg }) => !replaced.includes(arg)), ...reasons],
  };
}

const textOf = (value: EnvValue | undefined): string => (typeof value === "string" ? value : "a secret");
