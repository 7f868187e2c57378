import type { HostNeeds } from "../../core/host-needs.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { modelNeed, plainNeeds } from "../engine-needs.ts";
import { packageNeed } from "../python-packages.ts";
import type { MlxInput } from "./mlx-launch.ts";
import { MLX_VERSIONS } from "./versions.ts";

/** What an MLX launch needs of its host. */
export function mlxNeeds(input: MlxInput, plan: LaunchPlan): HostNeeds {
  return {
    ...plainNeeds(plan, "mlx", "pip install mlx-lm"),
    own: packageNeed("mlx-lm", "the engine", MLX_VERSIONS.range),
    model: modelNeed(input.model, "folder"),
  };
}
