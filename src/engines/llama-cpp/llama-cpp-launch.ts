import { CgnError, type Problem } from "../../core/errors.ts";
import type { LaunchPlan, PlanReadiness, PlanRequirement, PlanStop } from "../../core/launch-plan.ts";
import { slotUrl } from "../address.ts";
import { type Arg, addressProblems, arg, composeArgs, userValue } from "../args.ts";
import { type LaunchInput, modelTarget } from "../engine.ts";
import { tensorParallelWarnings } from "../none-only.ts";
import { DEFAULT_CONTEXT, type LlamaCppMode, type LlamaCppOptions, modeOf, programOf } from "./llama-cpp-options.ts";

export type LlamaCppInput = LaunchInput<LlamaCppOptions>;

const SERVER = "llama-server --help, llama.cpp of October 2026";
const PYTHON = "python -m llama_cpp.server --help, llama-cpp-python 0.3.36";
const EXTRA_ARGS_PATH = "engine.llama_cpp.extra_args";

/** Slots that llama-server opens when `--parallel` is left out; they share one context. */
export const AUTOMATIC_SLOTS = 4;

/** A busy llama-server goes only at the second SIGTERM; the router has drained it before the first. */
const SECOND_TERM_MS = 1_000;
const GRACE_MS = 5_000;

/**
 * Render llama.cpp's server in its mode. Pure.
 * @throws CgnError CONFIG_INVALID with all problems
 */
export function launchLlamaCpp(input: LlamaCppInput): LaunchPlan {
  const { slot, model } = input;
  const mode = modeOfInput(input);
  const composed = composeArgs(mode === "python_server" ? pythonArgs(input) : serverArgs(input), userArgsOf(input));
  refuseProblems(input, mode);
  return {
    version: 1,
    engine: "llama_cpp",
    kvOffload: input.offload,
    role: input.role,
    model: model.name,
    url: slotUrl(slot),
    argv: [...program(input, mode), ...composed.argv],
    env: slot.gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: slot.gpus.join(",") },
    files: [],
    ports: [{ name: "http", port: slot.port }],
    ready: readiness(mode, input.readyTimeoutMs),
    stop: stop(mode),
    sidecars: [],
    requires: requirements(input, mode),
    warnings: tensorParallelWarnings("llama.cpp", model),
    reasons: composed.reasons,
  };
}

/** What the user added: the engine section's words, then the model's. */
export function userArgsOf({ options, model }: LlamaCppInput): readonly string[] {
  return [...options.extra_args, ...model.extraArgs];
}

/** The mode of an engine that is started or adopted. */
export function modeOfInput({ options, slot, adopted }: LlamaCppInput): LlamaCppMode {
  return modeOf(options, adopted === true ? undefined : slot);
}

/** Requests that the server takes at a time, from the key or from `--parallel`; undefined where llama.cpp chooses. */
export function explicitSlots(input: LlamaCppInput): number | undefined {
  const written = Number(userValue(userArgsOf(input), ["--parallel", "-np"]));
  return Number.isInteger(written) && written >= 1 ? written : input.options.parallel;
}

/** Slots that hold a prompt each. */
export function slotCount(input: LlamaCppInput): number {
  return modeOfInput(input) === "python_server" ? 1 : (explicitSlots(input) ?? AUTOMATIC_SLOTS);
}

/** Whether all slots share one context: where `--parallel` is not written, or `--kv-unified` is. */
export function slotsShareContext(input: LlamaCppInput): boolean {
  const args = userArgsOf(input);
  if (userValue(args, ["--no-kv-unified", "-no-kvu"]) !== undefined) return false;
  return explicitSlots(input) === undefined || userValue(args, ["--kv-unified", "-kvu"]) !== undefined;
}

/** Context of one request in tokens; undefined where the model's own limit holds. */
export function contextTokens(input: LlamaCppInput): number | undefined {
  const written = userValue(userArgsOf(input), ["--ctx-size", "-c", "--n-ctx"]);
  if (written === undefined) return wantedContext(input);
  const total = Number(written);
  if (!Number.isInteger(total) || total < 1) return undefined;
  return Math.floor(total / (modeOfInput(input) === "python_server" ? 1 : (explicitSlots(input) ?? 1)));
}

function wantedContext({ options, model }: LlamaCppInput): number {
  return options.n_ctx ?? model.maxModelLen ?? DEFAULT_CONTEXT;
}

function threads({ options, slot }: LlamaCppInput): number {
  return options.n_threads ?? Math.max(1, Math.floor(slot.cores / Math.max(1, slot.enginesOnHost)));
}

const THREADS_WHY = "The host's cores, divided by its engines: threads that wait for each other on shared cores spin";

/** Flags of llama-server, which cgn's launcher for xllamacpp takes too. */
function serverArgs(input: LlamaCppInput): Arg[] {
  const { options, model, slot } = input;
  const slots = explicitSlots(input);
  const context = wantedContext(input) * (slots ?? 1);
  const contextWhy =
    slots === undefined
      ? "Context of a request; the automatic slots share it"
      : `n_ctx × ${slots}: with an explicit --parallel each slot gets its share of --ctx-size`;
  const layers = options.n_gpu_layers === -1 ? "all" : options.n_gpu_layers;
  return [
    ...modelArgs(input),
    ...arg(["--alias", "-a"], model.name, "The name that clients use", SERVER),
    ...arg("--host", slot.host, "The engine's address", SERVER),
    ...arg("--port", slot.port, "The engine's port; the default differs between versions", SERVER),
    ...arg(["--ctx-size", "-c"], context, contextWhy, SERVER),
    ...arg(["--threads", "-t"], threads(input), THREADS_WHY, SERVER),
    ...arg(["--n-gpu-layers", "--gpu-layers", "-ngl"], layers, "Layers on the GPU", SERVER),
    ...arg(["--parallel", "-np"], options.parallel, "Written in parallel", SERVER),
    ...arg("--metrics", true, "Load for the router; off by default", SERVER),
    ...arg(["--slots", "--no-slots"], true, "What the slots do, for people; on by default in this version", SERVER),
  ];
}

function modelArgs(input: LlamaCppInput): Arg[] {
  const { model } = input;
  const why = "What to load; without a model llama-server becomes a router that starts children";
  if (model.path === undefined && model.hfRepo !== undefined && modeOfInput(input) === "binary") {
    return arg(["--hf-repo", "-hf", "-hfr", "--model", "-m"], model.hfRepo, why, SERVER);
  }
  return arg(["--model", "-m", "--hf-repo", "-hf", "-hfr"], modelTarget(model), why, SERVER);
}

/** Flags of llama_cpp.server: underscores, other names, no metrics. */
function pythonArgs(input: LlamaCppInput): Arg[] {
  const { options, model, slot } = input;
  const interruptWhy = "Its default lets a new request end a running stream";
  return [
    ...arg("--model", modelTarget(model), "What to load", PYTHON),
    ...arg("--model_alias", model.name, "The name that clients use", PYTHON),
    ...arg("--n_ctx", wantedContext(input), "Context of a request; its own default is 2048", PYTHON),
    ...arg("--n_threads", threads(input), THREADS_WHY, PYTHON),
    ...arg("--n_gpu_layers", options.n_gpu_layers, "Layers on the GPU", PYTHON),
    ...arg("--host", slot.host, "The engine's address", PYTHON),
    ...arg("--port", slot.port, "The engine's port", PYTHON),
    ...arg("--interrupt_requests", "false", interruptWhy, "llama_cpp/server/settings.py, llama-cpp-python 0.3.36"),
  ];
}

function program({ options, slot }: LlamaCppInput, mode: LlamaCppMode): string[] {
  const name = programOf(options, mode);
  if (mode === "binary") return [name];
  return mode === "python_server" ? [name, "-m", "llama_cpp.server"] : [name, launcherPath(slot.launcherDir)];
}

/** Relative to the package's root where its place is not known. */
function launcherPath(dir = "launchers"): string {
  return `${dir.replace(/\/+$/, "")}/xllamacpp_server.py`;
}

/** llama_cpp.server has no /health; llama-server's is 503 while it loads. */
function readiness(mode: LlamaCppMode, timeoutMs: number): PlanReadiness {
  return { path: mode === "python_server" ? "/v1/models" : "/health", timeoutMs };
}

function stop(mode: LlamaCppMode): PlanStop {
  const base = { graceMs: GRACE_MS, drainsOnSigterm: false };
  return mode === "binary" ? { ...base, secondTermMs: SECOND_TERM_MS } : base;
}

const PACKAGES = { python_server: "llama-cpp-python", xllamacpp: "xllamacpp" } as const;

function requirements({ options, slot, model }: LlamaCppInput, mode: LlamaCppMode): PlanRequirement[] {
  const found: PlanRequirement[] = [{ what: "binary", name: programOf(options, mode) }];
  if (mode !== "binary") found.push({ what: "python package", name: PACKAGES[mode] });
  if (mode === "xllamacpp") found.push({ what: "file", name: launcherPath(slot.launcherDir) });
  if (model.path !== undefined) found.push({ what: "file", name: model.path });
  return found;
}

function refuseProblems(input: LlamaCppInput, mode: LlamaCppMode): void {
  const { options, model, slot } = input;
  const problems: Problem[] = addressProblems(userArgsOf(input), slot, EXTRA_ARGS_PATH);
  const add = (path: string, problem: string, remedy: string): void => {
    problems.push({ severity: "error", path, problem, remedy });
  };
  if (mode === "python_server" && options.parallel !== undefined) {
    add(
      "engine.llama_cpp.parallel",
      "llama_cpp.server serves one request at a time",
      "Remove parallel, or use another mode",
    );
  }
  if (mode !== "binary" && model.path === undefined && model.hfRepo !== undefined) {
    const remedy = `Set path in [models."${model.name}"] to a .gguf file`;
    add("models", `mode ${mode} loads a local GGUF file, and "${model.name}" has only hf_repo`, remedy);
  }
  if (userValue(userArgsOf(input), ["--models-dir", "--models-preset"]) !== undefined) {
    const remedy = "Remove --models-dir and --models-preset: an engine of cgn serves one model";
    add(EXTRA_ARGS_PATH, "llama-server's router mode starts engines of its own, which cgn could not watch", remedy);
  }
  if (problems.length === 0) return;
  const said = problems.map((p) => `${p.problem}. ${p.remedy ?? ""}`.trim()).join("; ");
  throw new CgnError("CONFIG_INVALID", `Cannot render the llama.cpp engine for "${model.name}": ${said}`, { problems });
}
