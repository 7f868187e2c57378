import { CgnError } from "../../core/errors.ts";
import type { LaunchPlan, PlanRequirement } from "../../core/launch-plan.ts";
import { slotUrl } from "../address.ts";
import { addressProblems, arg, composeArgs, userValue } from "../args.ts";
import { type LaunchInput, modelTarget } from "../engine.ts";
import { lowestOf, versionPart } from "../engine-versions.ts";
import { tensorParallelWarnings } from "../none-only.ts";
import type { MlxOptions } from "./mlx-options.ts";
import { mlxProbe } from "./mlx-probe.ts";
import { MLX_VERSIONS } from "./versions.ts";

export type MlxInput = LaunchInput<MlxOptions>;

const SOURCE = "python -m mlx_lm server --help, mlx-lm 0.32.2";

/** It does not drain and ends at once by the signal. */
const GRACE_MS = 5_000;

/**
 * Render `python -m mlx_lm server`. Pure.
 * @throws CgnError CONFIG_INVALID for an address in extra_args that contradicts the slot
 */
export function launchMlx(input: MlxInput): LaunchPlan {
  const { options, slot, model } = input;
  const userArgs = userArgsOf(input);
  const problems = addressProblems(userArgs, slot, "engine.mlx.extra_args");
  if (problems.length > 0) {
    const said = problems.map((p) => `${p.problem}. ${p.remedy ?? ""}`.trim()).join("; ");
    throw new CgnError("CONFIG_INVALID", `Cannot render the MLX engine for "${model.name}": ${said}`, { problems });
  }
  const args = [
    ...arg("--model", modelTarget(model), "What to load; the server has no alias, so requests carry this", SOURCE),
    ...arg("--host", slot.host, "The engine's address", SOURCE),
    ...arg("--port", slot.port, "The engine's port; its own default is 8080", SOURCE),
  ];
  const composed = composeArgs(args, userArgs, { abbreviations: true });
  const version = versionPart("mlx-lm", slot.engineVersion, MLX_VERSIONS);
  return {
    version: 1,
    engine: "mlx",
    kvOffload: input.offload,
    role: input.role,
    model: model.name,
    url: slotUrl(slot),
    argv: [options.binary, "-m", "mlx_lm", "server", ...composed.argv],
    env: slot.gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: slot.gpus.join(",") },
    files: [],
    ports: [{ name: "http", port: slot.port }],
    ready: { path: mlxProbe.ready.path, method: "POST", body: READY_BODY, timeoutMs: input.readyTimeoutMs },
    stop: { graceMs: GRACE_MS, drainsOnSigterm: false },
    sidecars: [],
    requires: requirements(input),
    warnings: [...version.warnings, ...tensorParallelWarnings("mlx_lm server", model)],
    reasons: [...composed.reasons, ...version.reasons],
  };
}

const READY_BODY = mlxProbe.ready.body ?? "";

/** What the user added: the engine section's words, then the model's. */
export function userArgsOf({ options, model }: MlxInput): readonly string[] {
  return [...options.extra_args, ...model.extraArgs];
}

/** The name that requests must carry: another one makes the server load another model. */
export function launchedModel(input: MlxInput): string {
  return userValue(userArgsOf(input), ["--model"]) ?? modelTarget(input.model);
}

function requirements({ options, model }: MlxInput): PlanRequirement[] {
  return [
    { what: "binary", name: options.binary },
    { what: "python package", name: "mlx-lm", range: lowestOf(MLX_VERSIONS) },
    ...(model.path === undefined ? [] : [{ what: "file" as const, name: model.path }]),
  ];
}
