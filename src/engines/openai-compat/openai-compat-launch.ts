import type { LaunchPlan } from "../../core/launch-plan.ts";
import { slotUrl } from "../address.ts";
import type { LaunchInput } from "../engine.ts";
import type { OpenaiCompatOptions } from "./openai-compat-options.ts";

/** A plan that spawns nothing: the endpoint is adopted, and only watched. */
export function launchOpenaiCompat(input: LaunchInput<OpenaiCompatOptions>): LaunchPlan {
  const { model, slot } = input;
  return {
    version: 1,
    engine: "openai_compat",
    kvOffload: input.offload,
    role: input.role,
    model: model.name,
    url: slotUrl(slot),
    argv: [],
    env: {},
    files: [],
    ports: [],
    ready: { path: "/v1/models", timeoutMs: input.readyTimeoutMs },
    stop: { graceMs: Math.max(1, input.drainGraceMs), drainsOnSigterm: false },
    sidecars: [],
    requires: [],
    warnings:
      model.extraArgs.length === 0
        ? []
        : [
            {
              code: "extra-args-unused",
              message: "extra_args have no effect: an openai_compat engine is not started by cgn",
              remedy: "Give them to whoever starts the endpoint",
            },
          ],
    reasons: [],
  };
}
