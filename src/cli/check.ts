import { pairProblems } from "../config/checks/pair-problems.ts";
import type { LoadedConfig } from "../config/load.ts";
import { isOwnLauncher, planEngine } from "../config/plan.ts";
import { formatProblem, sortProblems } from "../config/problems.ts";
import type { EngineSettings } from "../config/settings.ts";
import { CODES, isCgnError, type Problem } from "../core/errors.ts";
import { FINDINGS, type FindingCode } from "../core/findings.ts";
import type { PlanWarning } from "../core/launch-plan.ts";
import { checkHost } from "./check-host.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, type Values } from "./command.ts";
import { VERSION_OPTIONS } from "./engine-versions.ts";
import { loadOptions, loadWithVersions, PICK_OPTIONS } from "./load-config.ts";

/** What was found in one file. */
interface CheckedFile {
  readonly file?: string;
  readonly problems: readonly Problem[];
  /** Undefined when it cannot be used. */
  readonly loaded?: LoadedConfig;
  readonly exit: number;
}

/** `cgn check`: every problem of configurations at once, what the engines' launches warn about, and what this host lacks. */
export const checkCommand: Command = {
  name: "check",
  about: "check configurations, and this host for them: every problem at once, with its place and what mends it",
  examples: [
    "cgn check --config cgn.toml",
    "cgn check --host --fix",
    "cgn check prefill.toml decode.toml",
    "cgn check --format json | jq '.problems[].path'",
  ],
  positionals: [
    { name: "FILE", about: "files that work together (in place of --config)", required: false, variadic: true },
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    ...VERSION_OPTIONS,
    host: {
      type: "boolean",
      about: "look at this host too: programs, packages, GPUs, memory, ports, model files, disks",
    },
    fix: {
      type: "boolean",
      about: "print the command that would mend each problem, where there is one; it is never run",
    },
    format: { type: "string", value: "FORMAT", about: "text or json", default: "text", choices: ["text", "json"] },
  },
  async run({ options, positionals }, cli) {
    const named = positionals.length > 0 ? positionals : [undefined];
    const files = await Promise.all(named.map((path) => checkFile(path, options, cli)));
    const usable = files.flatMap(({ loaded }) => loaded ?? []);
    const host = options["host"] === true && usable.length === files.length ? await checkHost(usable, cli) : [];
    const pairs = usable.length === files.length ? pairProblems(usable) : [];
    const problems = inFileOrder(files, [...pairs, ...host]).filter(({ code }) => {
      // What the installed build tells is more than the guess from the platform.
      return code !== "other-platform" || !host.some((each) => each.code === "gpu-missing");
    });
    if (options["format"] === "json") printJson(files, problems, cli);
    else printText(files, problems, options, cli);
    return files.find(({ exit }) => exit !== 0)?.exit ?? exitOf(problems);
  },
};

/** A file that cannot be read or is not TOML is told like any other problem. */
async function checkFile(path: string | undefined, options: Values, cli: CliContext): Promise<CheckedFile> {
  const given = path === undefined ? options : { ...options, config: path };
  const named = typeof given["config"] === "string" ? given["config"] : cli.env["CGN_CONFIG"];
  try {
    // Without --host nothing but files is looked at.
    const loaded = await loadWithVersions(
      loadOptions(given, cli),
      { ...given, detect: options["host"] === true && options["detect"] },
      cli,
    );
    const { settings, problems, ctx } = loaded;
    const file = settings.file === undefined ? {} : { file: settings.file };
    if (problems.some((p) => p.severity === "error")) return { ...file, problems, exit: CODES.CONFIG_INVALID.exit };
    const plans = [...planWarnings(settings.engines), ...platformHint(settings.engines, ctx.host.platform)];
    return { ...file, problems: [...problems, ...plans], loaded, exit: 0 };
  } catch (e) {
    if (!isCgnError(e)) throw e;
    const told = isCgnError(e, "CONFIG_INVALID") ? e.details.problems : [];
    const problems: readonly Problem[] = told.length > 0 ? told : [{ severity: "error", path: "", problem: e.message }];
    const file = problems[0]?.file ?? named;
    return { ...(file === undefined ? {} : { file }), problems, exit: CODES[e.code].exit };
  }
}

/** Problems by file, each file's in its own order; what is no file's comes last. */
function inFileOrder(files: readonly CheckedFile[], others: readonly Problem[]): Problem[] {
  const all = [...files.flatMap(({ problems }) => problems), ...others];
  const names = [...new Set(files.map(({ file }) => file))];
  const rank = (p: Problem): number =>
    p.file === undefined || !names.includes(p.file) ? names.length : names.indexOf(p.file);
  return sortProblems(all).sort((a, b) => rank(a) - rank(b));
}

/** The first error decides: what is wrong with a host ends as the start would. */
function exitOf(problems: readonly Problem[]): number {
  const error = problems.find(({ severity }) => severity === "error");
  if (error === undefined) return 0;
  const row = FINDINGS[error.code as FindingCode];
  return CODES[row?.error ?? "CONFIG_INVALID"].exit;
}

function printJson(files: readonly CheckedFile[], found: readonly Problem[], cli: CliContext): void {
  const { errors, warnings } = counted(found);
  // What is wrong in a file is told by its place; it has a code so that every problem has one.
  const codeOf = ({ code, severity }: Problem): string =>
    code ?? (severity === "error" ? "config-invalid" : "config-warning");
  const problems = found.map((problem) => ({ ...problem, code: codeOf(problem) }));
  const names = files.map(({ file }) => file ?? null);
  const file = names.length === 1 ? { file: names[0] } : { files: names };
  cli.out(JSON.stringify({ ...file, errors, warnings, problems }, null, 2));
}

function printText(
  files: readonly CheckedFile[],
  problems: readonly Problem[],
  options: Values,
  cli: CliContext,
): void {
  for (const problem of problems) {
    cli.out(formatProblem(problem));
    if (options["fix"] === true && problem.fix !== undefined) cli.out(`    ${problem.fix}`);
  }
  const { errors, warnings } = counted(problems);
  const names = files.map(({ file }) => file ?? "no configuration file found; the defaults");
  const looked = options["host"] === true && files.every(({ loaded }) => loaded !== undefined) ? " on this host" : "";
  cli.err(`${names.join(", ")}${looked}: ${count(errors, "error")}, ${count(warnings, "warning")}`);
  if (options["host"] === true && looked === "") cli.err("This host was not looked at: mend the file first");
}

function counted(problems: readonly Problem[]): { errors: number; warnings: number } {
  const errors = problems.filter((p) => p.severity === "error").length;
  return { errors, warnings: problems.length - errors };
}

/** What launches warn of; once where several engines of the file have it in the same words. */
function planWarnings(engines: readonly EngineSettings[]): Problem[] {
  const groups = new Map<string, { readonly warning: PlanWarning; readonly engines: EngineSettings[] }>();
  for (const engine of engines) {
    for (const warning of planEngine(engine).warnings) {
      const key = JSON.stringify([warning.code, warning.message, warning.remedy]);
      const group = groups.get(key) ?? { warning, engines: [] };
      group.engines.push(engine);
      groups.set(key, group);
    }
  }
  return [...groups.values()].map(({ warning, engines: own }) => ({
    severity: "warning",
    path: "",
    problem: `${named(own, ({ nodeId, kind, model, url }) => `${nodeId} (${kind}, ${model.name || url})`)}: ${warning.message}`,
    remedy: warning.remedy,
    code: warning.code,
  }));
}

/** Commands are rendered for a GPU unless the file says otherwise: say so where this host would need another one. */
function platformHint(engines: readonly EngineSettings[], platform: EngineSettings["slot"]["platform"]): Problem[] {
  const others = engines.filter(
    (engine) =>
      engine.spawn &&
      engine.slot.platform === "unknown" &&
      commandOn(engine, platform) !== commandOn(engine, "unknown"),
  );
  if (others.length === 0) return [];
  const is = others.length === 1 ? "is" : "are";
  return [
    {
      severity: "warning",
      path: "agent.platform",
      problem: `${named(others, ({ nodeId }) => nodeId)} ${is} rendered for a GPU, and this host has platform "${platform}"`,
      remedy: `Set [agent].platform = "${platform}" (or "auto") if ${others.length === 1 ? "it" : "they"} will run here`,
      code: "other-platform",
    },
  ];
}

/** `engine a`, `engines a, b`. */
const named = (engines: readonly EngineSettings[], text: (engine: EngineSettings) => string): string =>
  `engine${engines.length === 1 ? "" : "s"} ${engines.map(text).join(", ")}`;

/** What would be rendered for a platform; undefined where that refuses the file, which was written for another. */
function commandOn(engine: EngineSettings, platform: EngineSettings["slot"]["platform"]): string | undefined {
  try {
    const { argv, env } = planEngine({ ...engine, slot: { ...engine.slot, platform } });
    // A simulated engine computes on nothing.
    if (isOwnLauncher(engine, argv[0] ?? "")) return undefined;
    return JSON.stringify([argv, env]);
  } catch (e) {
    if (isCgnError(e, "CONFIG_INVALID")) return undefined;
    throw e;
  }
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;
