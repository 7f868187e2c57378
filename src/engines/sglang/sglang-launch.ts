import { CgnError, type Problem } from "../../core/errors.ts";
import type { EnvValue, LaunchPlan, PlanPort, PlanRequirement, PlanWarning } from "../../core/launch-plan.ts";
import { isLoopbackHost, slotUrl } from "../address.ts";
import { type Arg, addressProblems, arg, type Composed, composeArgs, userValue, userWrote } from "../args.ts";
import { type LaunchInput, modelTarget } from "../engine.ts";
import { lowestOf, versionPart } from "../engine-versions.ts";
import { sidePort } from "../side-ports.ts";
import { checkSglangArgs, type FlagProblem } from "./sglang-checks.ts";
import { eventArgs, eventPorts } from "./sglang-kv-events.ts";
import { type OffloadPart, offloadArgs } from "./sglang-offload.ts";
import { DEFAULT_CONTEXT, type SglangOptions } from "./sglang-options.ts";
import { SGLANG_VERSIONS, sglangFeatures } from "./versions.ts";

export type SglangInput = LaunchInput<SglangOptions>;

const SOURCE = "SGLang 0.5.23, python/sglang/srt/server_args.py";
const ARGPARSE = { abbreviations: true } as const;

/** SGLang looks at its requests every 5 s while it drains, and its last process is gone about 6 s after the last stream. */
const SHORTEST_STOP_MS = 10_000;

/** Where the page size is not written. The same on every worker, HiCache or not: prefill and decode must agree or decode hangs. */
const DEFAULT_PAGE_TOKENS = 16;

/**
 * Render `python -m sglang.launch_server` for one slot. Pure.
 * @throws CgnError CONFIG_INVALID with all problems that can be known before a start
 */
export function launchSglang(input: SglangInput): LaunchPlan {
  const { options, slot, model, role, offload } = input;
  const part = offloadArgs(offload, role, options.hicache, {
    own: sidePort(slot, "bootstrap"),
    peer: slot.prefillBootstrapPort,
  });
  const composed = composeArgs([...baseArgs(input), ...part.args], userArgsOf(input), ARGPARSE);
  refuseProblems(input, composed);
  const version = versionPart("SGLang", slot.engineVersion, SGLANG_VERSIONS);
  return {
    version: 1,
    engine: "sglang",
    kvOffload: offload,
    role,
    model: model.name,
    url: slotUrl(slot),
    argv: [options.binary, "-m", "sglang.launch_server", ...composed.argv],
    env: environment(input),
    files: [],
    ports: ports(input),
    ready: { path: "/health", timeoutMs: input.readyTimeoutMs },
    stop: { graceMs: Math.max(input.drainGraceMs, SHORTEST_STOP_MS), drainsOnSigterm: true },
    sidecars: [],
    requires: requirements(input, part),
    warnings: [...version.warnings, ...part.warnings, ...slotWarnings(input)],
    reasons: [...composed.reasons, ...version.reasons],
  };
}

/** What the user added: the engine section's words, then the model's. */
export function userArgsOf({ options, model }: SglangInput): readonly string[] {
  return [...options.extra_args, ...model.extraArgs];
}

/** Tokens of a KV block as this worker publishes them. */
export function pageTokens(input: SglangInput): number {
  const written = Number(userValue(userArgsOf(input), ["--page-size"]));
  return Number.isInteger(written) && written >= 1 ? written : (input.blockTokens ?? DEFAULT_PAGE_TOKENS);
}

/** The context limit in tokens; `8k` means 8000 to SGLang. */
export function contextTokens(input: SglangInput): number | undefined {
  const written = userValue(userArgsOf(input), ["--context-length"]);
  if (written === undefined) return input.options.context_length ?? input.model.maxModelLen ?? DEFAULT_CONTEXT;
  const found = /^(\d+)(k?)$/i.exec(written);
  return found === null ? undefined : Number(found[1]) * (found[2] === "" ? 1 : 1000);
}

function baseArgs(input: SglangInput): Arg[] {
  const { options, model, slot } = input;
  const context = options.context_length ?? model.maxModelLen ?? DEFAULT_CONTEXT;
  return [
    ...arg(["--model-path", "--model"], modelTarget(model), "What to load; a positional model is refused here", SOURCE),
    ...arg("--served-model-name", model.name, "The name that clients use", SOURCE),
    ...arg(["--tp-size", "--tp", "--tensor-parallel-size"], model.tp, "Tensor-parallel degree of the model", SOURCE),
    ...arg("--host", slot.host, "The engine's address", SOURCE),
    ...arg("--port", slot.port, "The engine's port; SGLang's own default is 30000", SOURCE),
    ...arg("--dtype", model.dtype, "Written in the model's dtype", SOURCE),
    ...arg("--context-length", context, "A plain number: 8k would mean 8000", SOURCE),
    ...arg("--mem-fraction-static", options.mem_fraction_static, "Share of device memory for weights and KV", SOURCE),
    ...arg("--page-size", input.blockTokens ?? DEFAULT_PAGE_TOKENS, pageWhy(input), SOURCE),
    ...arg("--enable-metrics", true, "Load for the router; off by default", SOURCE),
    ...arg("--enable-cache-report", true, "usage.prompt_tokens_details.cached_tokens; off by default", SOURCE),
    ...eventArgs(input),
  ];
}

function pageWhy({ blockTokens, offload }: SglangInput): string {
  const base = "Tokens of a KV block; at SGLang's default of 1 every token is a block";
  if (offload !== "hicache" || blockTokens !== undefined) return base;
  return `${base}. SGLang's HiCache pages use 64: write [kv].block_size_tokens on prefill and decode alike to take that`;
}

function refuseProblems(input: SglangInput, composed: Composed): void {
  const userArgs = userArgsOf(input);
  const path = "engine.sglang.extra_args";
  const problems: Problem[] = [
    ...addressProblems(userArgs, input.slot, path),
    ...checkSglangArgs(composed.argv, sglangFeatures(input.slot.engineVersion)).map((found) =>
      toProblem(found, userArgs, path),
    ),
  ];
  if (problems.length === 0) return;
  const said = problems.map((p) => `${p.problem}. ${p.remedy ?? ""}`.trim()).join("; ");
  throw new CgnError("CONFIG_INVALID", `Cannot render the SGLang engine for "${input.model.name}": ${said}`, {
    problems,
  });
}

/** The key that a rendered flag comes from; what the user wrote himself is blamed on extra_args. */
const KEYS: Readonly<Record<string, string>> = {
  "--served-model-name": "models",
  "--tp-size": "models",
  "--port": "engine.url",
  "--mem-fraction-static": "engine.sglang.mem_fraction_static",
  "--page-size": "kv.block_size_tokens",
  "--hicache-ratio": "engine.sglang.hicache.ratio",
  "--hicache-write-policy": "engine.sglang.hicache.write_policy",
  "--hicache-storage-backend": "engine.sglang.hicache.storage",
  "--enable-hierarchical-cache": "engine.kv_offload",
};

function toProblem({ flag, problem, remedy }: FlagProblem, userArgs: readonly string[], extraPath: string): Problem {
  const path = userWrote(userArgs, [flag], ARGPARSE) ? extraPath : (KEYS[flag] ?? extraPath);
  return { severity: "error", path, problem, remedy };
}

function environment({ slot }: SglangInput): Record<string, EnvValue> {
  return {
    ...(slot.gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: slot.gpus.join(",") }),
    ...(slot.platform === "cpu" ? { SGLANG_USE_CPU_ENGINE: "1" } : {}),
  };
}

/** A decode worker opens no bootstrap port: it dials the prefill worker's, maybe on another host. */
function ports(input: SglangInput): PlanPort[] {
  const found = [{ name: "http", port: input.slot.port }, ...eventPorts(input)];
  if (input.role !== "prefill") return found;
  const written = Number(userValue(userArgsOf(input), ["--disaggregation-bootstrap-port"]));
  return [...found, { name: "bootstrap", port: written >= 1 ? written : sidePort(input.slot, "bootstrap") }];
}

function requirements({ options, slot, model }: SglangInput, part: OffloadPart): PlanRequirement[] {
  return [
    { what: "binary", name: options.binary },
    { what: "python package", name: "sglang", range: lowestOf(SGLANG_VERSIONS) },
    ...(model.path === undefined ? [] : [{ what: "file" as const, name: model.path }]),
    ...part.packages.map((name) => ({ what: "python package" as const, name })),
    ...(slot.platform === "cpu" ? [] : [{ what: "gpu" as const, name: "CUDA" }]),
  ];
}

function slotWarnings({ slot, role }: SglangInput): PlanWarning[] {
  const found: PlanWarning[] = [];
  if (role === "prefill" && isLoopbackHost(slot.host) && !isLoopbackHost(slot.peerAddress)) {
    found.push({
      code: "bootstrap-on-loopback",
      message: `SGLang's bootstrap server listens on ${slot.host}, where decode workers of other hosts cannot reach it`,
      remedy: `Set engine.url to http://${slot.peerAddress}:${slot.port}, or to 0.0.0.0`,
    });
  }
  if (slot.platform === "cpu") {
    found.push({
      code: "sglang-on-cpu",
      message: "SGLang needs its own CPU kernels, which are not on PyPI (0.5.23)",
      remedy: "Build sgl-kernel for CPU, or use llama_cpp on this machine",
    });
  }
  return found;
}
