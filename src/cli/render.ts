import { planEngine } from "../config/plan.ts";
import type { Settings } from "../config/settings.ts";
import { type CgnError, isCgnError } from "../core/errors.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { type CliContext, CONFIG_OPTIONS, type Command } from "./command.ts";
import { loadForCommand, PICK_OPTIONS } from "./load-config.ts";
import { requireEngines } from "./require-engines.ts";
import { hideSecrets, shellWord } from "./shell-words.ts";

/** `cgn render`: what would be started, without starting it. */
export const renderCommand: Command = {
  name: "render",
  about: "print the launch command of each engine, without starting any",
  examples: [
    "cgn render --config cgn.toml",
    "cgn render --config cgn.toml --role prefill --kv-offload nixl --explain",
    "cgn render --config cgn.toml --format json",
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    format: { type: "string", about: "shell or JSON", default: "shell", choices: ["shell", "json"] },
    explain: { type: "boolean", about: "say why each argument and variable is there, and by which source" },
  },
  async run({ options }, cli) {
    const asJson = options["format"] === "json";
    const explain = options["explain"] === true;
    try {
      const plans = plansOf(loadForCommand(options, cli));
      if (asJson) printJson(plans, explain, cli);
      else for (const [i, plan] of plans.entries()) printShell(plan, i, explain, cli);
    } catch (e) {
      if (asJson && isCgnError(e)) cli.out(JSON.stringify({ error: errorJson(e) }, undefined, 2));
      throw e;
    }
    return 0;
  },
};

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
    env: plan.env,
    files: plan.files,
    ports: plan.ports,
    ready: plan.ready,
    stop: plan.stop,
    sidecars: plan.sidecars.map((s) => ({ ...s, argv: hideSecrets(s.argv) })),
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
  for (const [name, value] of Object.entries(env)) {
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
