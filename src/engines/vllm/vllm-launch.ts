import { CgnError } from "../../core/errors.ts";
import type { LaunchPlan, PlanReason } from "../../core/launch-plan.ts";
import { slotUrl } from "../address.ts";
import { arg, composeArgs, parseUserArgs, userValue, userWrote } from "../args.ts";
import { type Announcement, type LaunchInput, tokenizerSource } from "../engine.ts";
import { lowestOf, versionPart } from "../engine-versions.ts";
import { VLLM_VERSIONS } from "./versions.ts";
import {
  count,
  envPart,
  joinParts,
  modelArgument,
  type PlanPart,
  RULES,
  readLaunch,
  type VllmLaunch,
} from "./vllm-context.ts";
import { eventSource, eventsPart, rankSources } from "./vllm-events-config.ts";
import { offloadPart } from "./vllm-offload.ts";
import { type VllmOptions, vllmOptions } from "./vllm-options.ts";
import { sleepPart } from "./vllm-sleep.ts";
import { userPart } from "./vllm-user.ts";

const CLI = "vllm serve --help, vLLM 0.32.0";

/** vLLM ends this long before it would be killed, so that clients get its own last words. */
const SHUTDOWN_MARGIN_S = 5;

/**
 * The launch plan of a vLLM engine. Pure.
 *
 * @throws CgnError CONFIG_INVALID with everything that contradicts itself
 */
export function vllmLaunch(input: LaunchInput<VllmOptions>): LaunchPlan {
  const launch = readLaunch(input);
  const plan = joinParts([
    versionPart("vLLM", input.slot.engineVersion, VLLM_VERSIONS),
    basePart(launch),
    cpuPart(launch),
    eventsPart(launch),
    offloadPart(launch),
    sleepPart(launch),
    userPart(launch),
  ]);
  if (plan.problems.length > 0) {
    const list = plan.problems.map((p) => `${p.problem}. ${p.remedy ?? ""}`).join("; ");
    throw new CgnError("CONFIG_INVALID", `Cannot launch vllm for "${input.model.name}": ${list}`, {
      problems: plan.problems,
    });
  }
  const command = commandOf(launch, plan);
  return {
    version: 1,
    engine: "vllm",
    kvOffload: input.offload,
    role: input.role,
    model: input.model.name,
    url: slotUrl(input.slot),
    argv: command.argv,
    env: plan.env,
    files: plan.files,
    ports: [{ name: "http", port: input.slot.port }, ...plan.ports],
    ready: { path: "/health", timeoutMs: input.readyTimeoutMs },
    stop: { graceMs: input.drainGraceMs, drainsOnSigterm: true },
    sidecars: plan.sidecars,
    requires: plan.requires,
    warnings: plan.warnings,
    reasons: [...command.reasons, ...plan.reasons],
  };
}

/** What may be known of the engine from its launch. */
export function vllmAnnounce(input: LaunchInput<VllmOptions>): Announcement {
  const launch = readLaunch(input);
  const served = userValue(launch.userArgs, ["--served-model-name"], RULES);
  // A value such as "32k" or "auto" is left to the engine to tell.
  const written = userValue(launch.userArgs, ["--max-model-len"], RULES);
  const maxModelTokens = written === undefined ? input.model.maxModelLen : count(written);
  const tokenizer = input.model.tokenizer ?? userValue(launch.userArgs, ["--tokenizer"], RULES);
  const ranks = rankSources(launch);
  return {
    blockTokens: launch.blockTokens,
    kv: eventSource(launch),
    ...(ranks === undefined ? {} : { ranks }),
    tokenizer: tokenizerSource({ ...input.model, ...(tokenizer === undefined ? {} : { tokenizer }) }),
    ...(served === undefined || served === input.model.name ? {} : { upstreamModel: served }),
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

/** Program, flags, and whose each flag is. What the old command template writes stays where it is, and is not repeated. */
function commandOf(launch: VllmLaunch, plan: Required<PlanPart>): { argv: string[]; reasons: PlanReason[] } {
  const { options, model } = launch.input;
  const { template } = launch;
  const head = template.length > 0 ? [...template] : [options.binary, "serve", modelArgument(launch.input)];
  const own = plan.args.filter((a) => !userWrote(template, a.names, RULES));
  const composed = composeArgs(own, [...options.extra_args, ...model.extraArgs], RULES);
  const templateReasons = parseUserArgs(template)
    .filter((flag) => flag.name !== "")
    .map((flag) => ({ arg: flag.name, why: "Written in the command template", source: "agent.vllm_cmd" }));
  const byDefault = defaultFlags(launch.input);
  const reasons = composed.reasons.map((reason) =>
    byDefault.includes(reason.arg) ? { ...reason, why: "The default of [engine.vllm].extra_args" } : reason,
  );
  return { argv: [...head, ...composed.argv], reasons: [...templateReasons, ...reasons] };
}

/** Flags that nobody wrote: the section's `extra_args` are as they are without it, and the model has none of the same name. */
function defaultFlags({ options, model }: LaunchInput<VllmOptions>): string[] {
  const usual = vllmOptions.shape.extra_args.parse(undefined);
  if (usual.join(" ") !== options.extra_args.join(" ")) return [];
  return usual.filter((name) => !userWrote(model.extraArgs, [name], RULES));
}

/** What every vLLM engine gets. */
function basePart(launch: VllmLaunch): PlanPart {
  const { model, slot, drainGraceMs, options } = launch.input;
  const shutdownS = Math.max(1, Math.floor(drainGraceMs / 1000) - SHUTDOWN_MARGIN_S);
  const binary = launch.template[0] ?? options.binary;
  const gpus =
    slot.gpus === undefined ? {} : envPart("CUDA_VISIBLE_DEVICES", slot.gpus.join(","), "The engine's GPUs", "CUDA");
  return joinParts([
    {
      args: [
        ...arg("--host", slot.host, "engine.url", CLI),
        ...arg("--port", slot.port, "engine.url", CLI),
        ...arg(["--tensor-parallel-size", "-tp", "--tp"], model.tp, "models.tp", CLI),
        ...arg("--max-model-len", model.maxModelLen, "models.max_model_len", CLI),
        ...arg("--dtype", model.dtype, "models.dtype", CLI),
        ...arg("--served-model-name", model.name, "The name that clients use", CLI),
        ...arg(
          "--block-size",
          launch.blockTokens,
          "Always said, since prefill, decode and the index must agree; vLLM's own default is 128 on a CPU",
          "vLLM 0.32.0, run on a CPU",
        ),
        ...arg(
          "--enable-prompt-tokens-details",
          true,
          "Without it vLLM does not report cached_tokens, by which predictions are checked",
          "vLLM 0.32.0, run on a CPU",
        ),
        ...arg(
          "--shutdown-timeout",
          launch.features.shutdownTimeout ? shutdownS : undefined,
          `The drain grace less ${SHUTDOWN_MARGIN_S} s. With vLLM's default of 0 a SIGTERM during a request hangs for ever`,
          "vLLM 0.32.0, run on a CPU",
        ),
      ],
      requires: [
        { what: "binary", name: binary, range: lowestOf(VLLM_VERSIONS) },
        ...(model.path === undefined ? [] : [{ what: "file" as const, name: model.path }]),
      ],
    },
    envPart(
      "PYTHONHASHSEED",
      "0",
      "Block hashes must be the same in every engine and after a restart, or LMCache and NIXL peers miss each other's blocks",
      "vLLM v1/core/kv_cache_utils.py, 0.32.0; LMCache#1095",
    ),
    gpus,
  ]);
}

/** Two engines that compute on one CPU both bind its first core, and crawl (0.5 tokens/s), unless each has its own cores. */
function cpuPart(launch: VllmLaunch): PlanPart {
  const { platform, cores, enginesOnHost, indexOnHost } = launch.input.slot;
  if (platform !== "cpu" || enginesOnHost < 2) return {};
  const why = "Engines of one host must not bind the same cores";
  if (indexOnHost !== undefined) {
    const share = Math.max(1, Math.floor(cores / enginesOnHost));
    const first = (indexOnHost * share) % Math.max(1, cores);
    const range = share === 1 ? String(first) : `${first}-${first + share - 1}`;
    return envPart("VLLM_CPU_OMP_THREADS_BIND", range, why, "vLLM 0.32.0, two engines run on two cores");
  }
  return {
    warnings: [
      {
        code: "cpu-cores-shared",
        message: `${enginesOnHost} vLLM engines on this CPU bind the same cores`,
        remedy: "Set VLLM_CPU_OMP_THREADS_BIND to other cores for each engine",
      },
    ],
  };
}
