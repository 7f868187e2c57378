import { engineNeeds } from "../../config/plan.ts";
import type { EngineSettings } from "../../config/settings.ts";
import type { EnvValue, LaunchPlan } from "../../core/launch-plan.ts";
import { HIDDEN, isSecretVariable } from "../../core/secret-names.ts";
import { hideSecrets } from "../shell-words.ts";

/** An engine that is to be written down for another keeper of processes. */
export interface RenderedEngine {
  /** Unit, service and object name: letters, digits and dashes, unique in the file. */
  readonly name: string;
  readonly plan: LaunchPlan;
  readonly settings: EngineSettings;
}

/** A file of a format. */
export interface OutputFile {
  /** Relative to the output folder. */
  readonly path: string;
  readonly text: string;
  /** Octal; default 0644. */
  readonly mode?: number;
}

/** What the formats take besides the engines. */
export interface FormatOptions {
  /** Container image for every engine; else the one of its kind. */
  readonly image?: string;
}

/** Names for the engines' units: the node's, else the place in the file; made to fit every format (RFC 1123 labels). */
export function unitNames(settings: readonly EngineSettings[]): string[] {
  const taken = new Set<string>();
  return settings.map(({ nodeId, kind }, n) => {
    const plain = (nodeId || `${kind}-${n}`).toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
    const base = plain.replaceAll(/^-+|-+$/g, "").slice(0, 40) || `engine-${n}`;
    let name = base;
    for (let i = 2; taken.has(name); i++) name = `${base}-${i}`;
    taken.add(name);
    return name;
  });
}

/** A word of a command line. */
export interface Word {
  readonly text: string;
  /** The variable that holds what comes after `text`: keys and passwords are never written into a file for all to read. */
  readonly secret?: string;
}

/** Take the values of flags and variables that carry secrets (`--api-key K`, `env HF_TOKEN=K`) out of a command line. */
export function takeSecrets(argv: readonly string[]): Word[] {
  let flag = "";
  return hideSecrets(argv).map((word, n) => {
    if (/^-{1,2}[A-Za-z]/.test(word)) flag = word.split("=")[0]!;
    if (word === argv[n]) return { text: word };
    const text = word.slice(0, -HIDDEN.length);
    // `NAME=value` is called as its variable is, and `--flag value` as the flag.
    const name = /(\w[\w-]*)=$/.exec(text)?.[1] ?? flag;
    const secret = `CGN_${name.replace(/^-+/, "").replaceAll(/\W/g, "_").toUpperCase()}`;
    return { text, secret };
  });
}

/** The secrets of a command line as variables to fill in, by name, with where they came from. */
export function secretArguments(argv: readonly string[]): [string, string][] {
  const names = takeSecrets(argv).flatMap(({ secret }) => (secret === undefined ? [] : [secret]));
  return [...new Set(names)].map((name) => [name, "the engine's extra_args"]);
}

/** Variables whose value may be written, and those that are secret (by their name, or as they were written), with where they come from. */
export function splitEnv(env: LaunchPlan["env"]): { plain: [string, string][]; secret: [string, string][] } {
  const plain: [string, string][] = [];
  const secret: [string, string][] = [];
  for (const [name, value] of Object.entries(env) as [string, EnvValue][]) {
    if (typeof value !== "string") secret.push([name, value.secretFrom]);
    else if (isSecretVariable(name, value)) secret.push([name, "the engine's env"]);
    else plain.push([name, value]);
  }
  return { plain, secret };
}

/** Masks of devices: a container sees only what it was given, counted from 0, so these must not go with it. */
const DEVICE_MASKS = new Set(["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]);

/** The environment that makes sense inside a container. */
export function containerEnv(env: LaunchPlan["env"]): LaunchPlan["env"] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !DEVICE_MASKS.has(name)));
}

/** How many GPUs the engine computes on, as its own launch says (ranks of every kind); 0 for a plan for the CPU. */
export function gpuCount({ settings, plan }: Pick<RenderedEngine, "settings" | "plan">): number {
  const { slot, model } = settings;
  if (slot.gpus !== undefined) return slot.gpus.length;
  const { gpu, takesGpu } = engineNeeds(settings, plan) ?? {};
  if (gpu?.unless !== undefined && plan.env[gpu.unless.name] === gpu.unless.value) return 0;
  // Engines that do without a GPU as well get one where the file says that there are, or asks them to use it.
  return gpu?.count ?? (slot.platform === "cuda" || takesGpu ? model.tp : 0);
}

/** Absolute paths of the model that the process reads. */
export function modelPaths({ model }: EngineSettings): string[] {
  return [model.path, model.tokenizer].filter((path): path is string => path?.startsWith("/") === true);
}

/** Seconds, rounded up, at least 1. */
export const seconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));
