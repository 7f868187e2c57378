import { loadConfig } from "../config/load.ts";
import { planEngine } from "../config/plan.ts";
import { formatProblem, sortProblems } from "../config/problems.ts";
import type { EngineSettings } from "../config/settings.ts";
import { CODES, isCgnError, type Problem } from "../core/errors.ts";
import { CONFIG_OPTIONS, type Command } from "./command.ts";
import { loadOptions, PICK_OPTIONS } from "./load-config.ts";

interface CheckResult {
  readonly file?: string;
  readonly problems: readonly Problem[];
  readonly exit: number;
}

/** `cgn check`: every problem of a configuration at once, and what the engines' launches warn about. */
export const checkCommand: Command = {
  name: "check",
  about: "check a configuration: every problem at once, each with file, line and column",
  examples: ["cgn check --config cgn.toml", "cgn check --format json | jq '.problems[].path'"],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    format: { type: "string", value: "FORMAT", about: "text or json", default: "text", choices: ["text", "json"] },
  },
  async run({ options }, cli) {
    const named = typeof options.config === "string" ? options.config : undefined;
    const result = checkConfig(() => loadConfig(loadOptions(options, cli)), named ?? cli.env.CGN_CONFIG);
    const errors = result.problems.filter((p) => p.severity === "error").length;
    const warnings = result.problems.length - errors;
    if (options.format === "json") {
      cli.out(JSON.stringify({ file: result.file ?? null, errors, warnings, problems: result.problems }, null, 2));
      return result.exit;
    }
    for (const problem of result.problems) cli.out(formatProblem(problem));
    const what = result.file ?? "no configuration file found; the defaults";
    cli.err(`${what}: ${count(errors, "error")}, ${count(warnings, "warning")}`);
    return result.exit;
  },
};

/** A file that cannot be read or is not TOML is told like any other problem. */
function checkConfig(load: () => ReturnType<typeof loadConfig>, named: string | undefined): CheckResult {
  try {
    const { settings, problems, ctx } = load();
    const failed = problems.some((p) => p.severity === "error");
    const plans = failed
      ? []
      : settings.engines.flatMap((engine) => [...planWarnings(engine), ...platformHint(engine, ctx.host.platform)]);
    return {
      ...(settings.file === undefined ? {} : { file: settings.file }),
      problems: sortProblems([...problems, ...plans]),
      exit: failed ? CODES.CONFIG_INVALID.exit : 0,
    };
  } catch (e) {
    if (!isCgnError(e)) throw e;
    const told = isCgnError(e, "CONFIG_INVALID") ? e.details.problems : [];
    const problems: readonly Problem[] = told.length > 0 ? told : [{ severity: "error", path: "", problem: e.message }];
    const file = problems[0]?.file ?? named;
    return { ...(file === undefined ? {} : { file }), problems, exit: CODES[e.code].exit };
  }
}

function planWarnings(engine: EngineSettings): Problem[] {
  return planEngine(engine).warnings.map((warning) => ({
    severity: "warning",
    path: "",
    problem: `engine ${engine.nodeId} (${engine.kind}, ${engine.model.name || engine.url}): ${warning.message}`,
    remedy: warning.remedy,
  }));
}

/** Commands are rendered for a GPU unless the file says otherwise: say so where this host would need another one. */
function platformHint(engine: EngineSettings, platform: EngineSettings["slot"]["platform"]): Problem[] {
  if (!engine.spawn || engine.slot.platform !== "unknown") return [];
  const here = planEngine({ ...engine, slot: { ...engine.slot, platform } });
  const rendered = planEngine(engine);
  if (JSON.stringify([here.argv, here.env]) === JSON.stringify([rendered.argv, rendered.env])) return [];
  return [
    {
      severity: "warning",
      path: "agent.platform",
      problem: `engine ${engine.nodeId} is rendered for a GPU, and this host has platform "${platform}"`,
      remedy: `Set [agent].platform = "${platform}" (or "auto") if the engine will run here`,
    },
  ];
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;
