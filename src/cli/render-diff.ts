import { planEngine } from "../config/plan.ts";
import { CgnError } from "../core/errors.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { CliContext, Values } from "./command.ts";
import { type PlanChange, planDiff } from "./formats/diff.ts";
import { loadForCommand } from "./load-config.ts";
import { requireEngines } from "./require-engines.ts";

/** What can be compared, and the option that sets it. */
const COMPARED = { kv_offload: "kvOffload", role: "role", kind: "kind" } as const;

/**
 * `cgn render --diff KEY=A,B`: what changes in each engine's command, environment and files.
 * @throws CgnError BAD_INVOCATION for a KEY that cannot be compared; as rendering does for a value that is refused
 */
export function renderDiff(asked: string, options: Values, cli: CliContext): number {
  const [, key = "", before = "", after = ""] = /^(\w+)=([^,]*),([^,]*)$/.exec(asked) ?? [];
  if (!(key in COMPARED) || before === "" || after === "") {
    const message = `Cannot compare "${asked}". Write --diff KEY=A,B with ${Object.keys(COMPARED).join(", ")} as KEY, for example kv_offload=none,lmcache`;
    throw new CgnError("BAD_INVOCATION", message, { diff: asked });
  }
  const option = COMPARED[key as keyof typeof COMPARED];
  const plans = (value: string): LaunchPlan[] => {
    const settings = loadForCommand({ ...options, [option]: value }, cli);
    requireEngines(settings, "render");
    return settings.engines.map((engine) => planEngine(engine));
  };
  const [old, now] = [plans(before), plans(after)];
  if (options["format"] === "json") printJson(key, [before, after], old, now, cli);
  else for (const [n, plan] of old.entries()) printText(key, plan, now[n]!, n, cli);
  return 0;
}

function printJson(
  key: string,
  values: readonly string[],
  old: readonly LaunchPlan[],
  now: readonly LaunchPlan[],
  cli: CliContext,
): void {
  const engines = old.map((plan, n) => ({
    engine: plan.engine,
    model: plan.model,
    url: plan.url,
    changes: planDiff(plan, now[n]!)
      .filter(({ change }) => change !== "same")
      .map(({ change, item }) => ({ change, ...item })),
  }));
  cli.out(JSON.stringify({ key, values, engines }, undefined, 2));
}

const SIGNS = { same: " ", removed: "-", added: "+" } as const;

function printText(key: string, before: LaunchPlan, after: LaunchPlan, n: number, cli: CliContext): void {
  if (n > 0) cli.out("");
  const value = (plan: LaunchPlan): string =>
    key === "kv_offload" ? plan.kvOffload : key === "role" ? plan.role : plan.engine;
  cli.out(`# ${before.engine} "${before.model}" at ${before.url}: ${key} ${value(before)} -> ${value(after)}`);
  const changes = planDiff(before, after);
  for (const { change, item } of changes) {
    cli.out(paint(`${SIGNS[change]} ${item.text}`, change, cli));
    if (change === "added" && item.why !== undefined) cli.out(`    # ${item.why}`);
  }
  if (changes.every(({ change }) => change === "same")) cli.out("# nothing changes");
}

const COLORS = { removed: 31, added: 32 } as const;

function paint(line: string, change: PlanChange["change"], cli: CliContext): string {
  return cli.color && change !== "same" ? `\u001b[${COLORS[change]}m${line}\u001b[39m` : line;
}
