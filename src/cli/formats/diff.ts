import type { LaunchPlan } from "../../core/launch-plan.ts";
import { hideSecrets, hideVariables } from "../shell-words.ts";

/** What a plan has at one place: a flag with its values, a variable, a file, a process beside it, or a need. */
export interface PlanItem {
  readonly key: string;
  readonly text: string;
  /** Why it is there, where the plan says so. */
  readonly why?: string;
}

/** A line of the difference between two plans. */
export interface PlanChange {
  readonly change: "same" | "removed" | "added";
  readonly item: PlanItem;
}

/** All that a plan asks for, in the order in which it is shown. */
export function planItems(plan: LaunchPlan): PlanItem[] {
  const why = new Map(plan.reasons.map((reason) => [reason.arg, `${reason.why} [${reason.source}]`]));
  const item = (key: string, text: string): PlanItem => {
    const reason = why.get(key);
    return { key, text, ...(reason === undefined ? {} : { why: reason }) };
  };
  return [
    ...Object.entries(hideVariables(plan.env)).map(([name, value]) =>
      item(name, `${name}=${typeof value === "string" ? value : `(from ${value.secretFrom})`}`),
    ),
    ...flagGroups(hideSecrets(plan.argv)).map((words) => item(words[0]!, words.join(" "))),
    ...plan.sidecars.map((s) => item(`beside: ${s.name}`, `beside: ${hideSecrets(s.argv).join(" ")}`)),
    ...plan.files.map((file) => item(`writes: ${file.path}`, `writes: ${file.path}`)),
    ...plan.requires.map((r) => item(`needs: ${r.name}`, `needs: ${[r.what, r.name, r.range ?? ""].join(" ").trim()}`)),
  ];
}

/** A flag and what follows it, up to the next flag. */
function flagGroups(argv: readonly string[]): string[][] {
  const groups: string[][] = [];
  for (const word of argv) {
    if (groups.length === 0 || /^-{1,2}[A-Za-z]/.test(word)) groups.push([word]);
    else groups.at(-1)!.push(word);
  }
  return groups;
}

/** What must change to come from `before` to `after`: an item that differs is removed and added at the same place. */
export function planDiff(before: LaunchPlan, after: LaunchPlan): PlanChange[] {
  const old = planItems(before);
  const left = new Map(planItems(after).map((item) => [item.key, item]));
  const changes: PlanChange[] = [];
  for (const item of old) {
    const now = left.get(item.key);
    left.delete(item.key);
    if (now?.text === item.text) {
      changes.push({ change: "same", item: now });
      continue;
    }
    changes.push({ change: "removed", item });
    if (now !== undefined) changes.push({ change: "added", item: now });
  }
  for (const item of left.values()) changes.push({ change: "added", item });
  return changes;
}
