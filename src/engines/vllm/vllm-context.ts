import type { Problem } from "../../core/errors.ts";
import type {
  EnvValue,
  PlanFile,
  PlanPort,
  PlanReason,
  PlanRequirement,
  PlanSidecar,
  PlanWarning,
} from "../../core/launch-plan.ts";
import type { Arg } from "../args.ts";
import { userValue } from "../args.ts";
import type { LaunchInput } from "../engine.ts";
import { type VllmFeatures, vllmFeatures } from "./versions.ts";
import type { VllmOptions } from "./vllm-options.ts";

/** Dotted key of the words that the user added, for problems. */
export const EXTRA_ARGS_PATH = "engine.vllm.extra_args";

/** vLLM's parser is argparse: it takes unambiguous beginnings of flags (checked on 0.32.0, case "abbrev"). */
export const RULES = { abbreviations: true } as const;

/** A launch input with what the user wrote already read out of it. */
export interface VllmLaunch {
  readonly input: LaunchInput<VllmOptions>;
  /** Words of the old command template with its placeholders filled in; empty without one. */
  readonly template: readonly string[];
  /** The template's words, `extra_args` of the engine, those of the model: the later wins. */
  readonly userArgs: readonly string[];
  /** Data-parallel ranks of this process. */
  readonly dpSize: number;
  readonly blockTokens: number;
  /** What the installed version takes. */
  readonly features: VllmFeatures;
}

/** What one concern (events, the dial, LMCache, …) adds to a plan. */
export interface PlanPart {
  readonly args?: readonly Arg[];
  readonly env?: Readonly<Record<string, EnvValue>>;
  readonly files?: readonly PlanFile[];
  readonly ports?: readonly PlanPort[];
  readonly sidecars?: readonly PlanSidecar[];
  readonly requires?: readonly PlanRequirement[];
  readonly warnings?: readonly PlanWarning[];
  /** Of environment variables; flags carry their own. */
  readonly reasons?: readonly PlanReason[];
  readonly problems?: readonly Problem[];
}

/** A variable with its reason. */
export function envPart(name: string, value: string, why: string, source: string): PlanPart {
  return { env: { [name]: value }, reasons: [{ arg: name, why, source }] };
}

/** Put parts together in order; a later part's variable replaces an earlier one's. */
export function joinParts(parts: readonly PlanPart[]): Required<PlanPart> {
  return {
    args: parts.flatMap((p) => p.args ?? []),
    env: Object.assign({}, ...parts.map((p) => p.env ?? {})) as Record<string, EnvValue>,
    files: parts.flatMap((p) => p.files ?? []),
    ports: parts.flatMap((p) => p.ports ?? []),
    sidecars: parts.flatMap((p) => p.sidecars ?? []),
    requires: parts.flatMap((p) => p.requires ?? []),
    warnings: parts.flatMap((p) => p.warnings ?? []),
    reasons: parts.flatMap((p) => p.reasons ?? []),
    problems: parts.flatMap((p) => p.problems ?? []),
  };
}

/** Block size where none was written: vLLM's own default on a CPU is 128, and there it must be a multiple of 32 (0.32.0). */
const DEFAULT_BLOCK_TOKENS = { gpu: 16, cpu: 32 } as const;

/** Read what the user wrote, once, for all parts of the launch. */
export function readLaunch(input: LaunchInput<VllmOptions>): VllmLaunch {
  const template = (input.commandTemplate ?? []).map((word) =>
    word.replaceAll("{model}", modelArgument(input)).replaceAll("{tp}", String(input.model.tp)),
  );
  const userArgs = [...template, ...input.options.extra_args, ...input.model.extraArgs];
  const fallback = input.slot.platform === "cpu" ? DEFAULT_BLOCK_TOKENS.cpu : DEFAULT_BLOCK_TOKENS.gpu;
  return {
    input,
    template,
    userArgs,
    dpSize: count(userValue(userArgs, ["--data-parallel-size", "-dp"], RULES)) ?? 1,
    blockTokens: count(userValue(userArgs, ["--block-size"], RULES)) ?? input.blockTokens ?? fallback,
    features: vllmFeatures(input.slot.engineVersion),
  };
}

/** What vLLM is told to load: path, else hub repository, else the name. */
export function modelArgument(input: LaunchInput<VllmOptions>): string {
  return input.model.path ?? input.model.hfRepo ?? input.model.name;
}

/** A whole number of at least 1, else undefined: the engine's parser says what is wrong with it. */
export function count(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d*$/.test(text) ? Number(text) : undefined;
}
