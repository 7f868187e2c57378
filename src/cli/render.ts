import { planEngine } from "../config/plan.ts";
import type { Settings } from "../config/settings.ts";
import { type CgnError, isCgnError } from "../core/errors.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, type Values } from "./command.ts";
import { VERSION_OPTIONS } from "./engine-versions.ts";
import { composeFiles } from "./formats/compose.ts";
import { k8sFiles } from "./formats/k8s.ts";
import { type FormatOptions, type OutputFile, type RenderedEngine, unitNames } from "./formats/rendered-engine.ts";
import { systemdFiles } from "./formats/systemd.ts";
import { emitFiles } from "./formats/write-files.ts";
import { loadForLaunch, PICK_OPTIONS } from "./load-config.ts";
import { renderDiff } from "./render-diff.ts";
import { requireEngines } from "./require-engines.ts";
import { hideSecrets, hideVariables, shellWord } from "./shell-words.ts";

/** `cgn render`: what would be started, without starting it. */
export const renderCommand: Command = {
  name: "render",
  about: "print the launch command of each engine, without starting any",
  examples: [
    "cgn render --config cgn.toml",
    "cgn render --config cgn.toml --role prefill --kv-offload nixl --explain",
    "cgn render --config cgn.toml --format json",
    "cgn render --config cgn.toml --diff kv_offload=none,lmcache",
    "cgn render --config cgn.toml --format systemd --output units/",
    "cgn render --config cgn.toml --format k8s --image registry.example/vllm:mine | kubectl apply -f -",
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    ...VERSION_OPTIONS,
    format: {
      type: "string",
      about: "shell, JSON, or files for another keeper of processes: systemd units, a Compose file, Kubernetes objects",
      default: "shell",
      choices: ["shell", "json", "systemd", "compose", "k8s"],
    },
    image: {
      type: "string",
      value: "IMAGE",
      about: "compose, k8s: the container image, where the kind's own does not fit",
    },
    output: {
      type: "string",
      value: "DIR",
      about: "systemd, compose, k8s: write the files there instead of printing them",
    },
    diff: {
      type: "string",
      value: "KEY=A,B",
      about: "what changes between two values of kv_offload, role or kind, with the reasons",
    },
    explain: { type: "boolean", about: "say why each argument and variable is there, and by which source" },
  },
  async run({ options }, cli) {
    const asJson = options["format"] === "json";
    const explain = options["explain"] === true;
    const format = FILE_FORMATS[String(options["format"])];
    try {
      if (typeof options["diff"] === "string") return renderDiff(options["diff"], options, cli);
      if (format !== undefined) return await renderFiles(format, options, cli);
      const plans = plansOf(await loadForLaunch(options, cli));
      if (asJson) printJson(plans, explain, cli);
      else for (const [i, plan] of plans.entries()) printShell(plan, i, explain, cli);
    } catch (e) {
      if (asJson && isCgnError(e)) cli.out(JSON.stringify({ error: errorJson(e) }, undefined, 2));
      throw e;
    }
    return 0;
  },
};

/** Formats that are files. */
const FILE_FORMATS: Readonly<
  Record<string, (engines: readonly RenderedEngine[], options: FormatOptions) => OutputFile[]>
> = { systemd: systemdFiles, compose: composeFiles, k8s: k8sFiles };

async function renderFiles(format: (typeof FILE_FORMATS)[string], options: Values, cli: CliContext): Promise<number> {
  // A container has the image's engine, not this host's.
  const here = format === systemdFiles ? options : { ...options, detect: false };
  const settings = await loadForLaunch(here, cli);
  requireEngines(settings, "render");
  const names = unitNames(settings.engines);
  const rendered = settings.engines
    .map((engine, n) => ({ name: names[n]!, plan: planEngine(engine), settings: engine }))
    .filter(({ name, plan }) => {
      for (const w of plan.warnings) cli.err(`warning: ${w.message}. ${w.remedy}`);
      if (plan.argv.length === 0) cli.err(`${name} is left out: somebody else runs it`);
      return plan.argv.length > 0;
    });
  const image = options["image"];
  const output = options["output"];
  const files = format(rendered, typeof image === "string" ? { image } : {});
  emitFiles(files, typeof output === "string" ? output : undefined, cli);
  return 0;
}

function plansOf(settings: Settings): readonly LaunchPlan[] {
  requireEngines(settings, "render");
  return settings.engines.map((engine) => planEngine(engine));
}

/** The JSON form of a plan, version 1: reasons only when they are asked for, secrets never. */
export function planJson(plan: LaunchPlan, explain: boolean): object {
  return {
    version: plan.version,
    engine: plan.engine,
    kvOffload: plan.kvOffload,
    role: plan.role,
    model: plan.model,
    url: plan.url,
    argv: hideSecrets(plan.argv),
    env: hideVariables(plan.env),
    files: plan.files,
    ports: plan.ports,
    ready: plan.ready,
    stop: plan.stop,
    sidecars: plan.sidecars.map((s) => ({ ...s, argv: hideSecrets(s.argv), env: hideVariables(s.env) })),
    requires: plan.requires,
    warnings: plan.warnings,
    ...(explain ? { reasons: plan.reasons } : {}),
  };
}

function printJson(plans: readonly LaunchPlan[], explain: boolean, cli: CliContext): void {
  const objects = plans.map((plan) => planJson(plan, explain));
  cli.out(JSON.stringify(objects.length === 1 ? objects[0] : objects, undefined, 2));
}

/** A command that can be pasted, under comment lines that say what it is for; warnings are talk. */
function printShell(plan: LaunchPlan, index: number, explain: boolean, cli: CliContext): void {
  for (const w of plan.warnings) cli.err(`warning: ${w.message}. ${w.remedy}`);
  if (index > 0) cli.out("");
  cli.out(`# ${plan.engine} "${plan.model}", role ${plan.role}, kv_offload ${plan.kvOffload}, at ${plan.url}`);
  for (const r of plan.requires)
    cli.out(`# needs ${[r.what, r.name, r.range].filter((part) => part !== undefined).join(" ")}`);
  for (const f of plan.files) cli.out(`# writes ${f.path} (mode ${f.mode})`);
  for (const s of plan.sidecars) cli.out(`# beside it, started first (${s.name}):\n${commandText(s.argv, s.env)}`);
  cli.out(plan.argv.length === 0 ? "# nothing is started: somebody else runs it" : commandText(plan.argv, plan.env));
  if (!explain) return;
  for (const r of plan.reasons) cli.out(`# ${r.arg}: ${r.why} [${r.source}]`);
}

/** Variables first, then one flag a line. A secret variable is told in a comment, since only the agent reads it. */
function commandText(argv: readonly string[], env: LaunchPlan["env"]): string {
  const lines: string[] = [];
  const comments: string[] = [];
  for (const [name, value] of Object.entries(hideVariables(env))) {
    if (typeof value === "string") lines.push(`${name}=${shellWord(value)}`);
    else comments.push(`# ${name} is read from ${value.secretFrom} when it starts`);
  }
  let words: string[] = [];
  for (const word of hideSecrets(argv)) {
    if (/^-{1,2}[A-Za-z]/.test(word) && words.length > 0) {
      lines.push(words.join(" "));
      words = [];
    }
    words.push(shellWord(word));
  }
  lines.push(words.join(" "));
  return [...comments, lines.map((line, i) => (i === 0 ? line : `  ${line}`)).join(" \\\n")].join("\n");
}

function errorJson(e: CgnError): object {
  const { accepted, problems } = e.details as { accepted?: readonly string[]; problems?: readonly object[] };
  return {
    code: e.code,
    message: e.message,
    ...(accepted === undefined ? {} : { accepted }),
    ...(problems === undefined ? {} : { problems }),
  };
}
