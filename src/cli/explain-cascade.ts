import type { CascadeRecord } from "../router/decisions.ts";
import type { CliContext } from "./command.ts";

/** The models of a cascade that were asked, one a line. */
export function printCascade(last: CascadeRecord, cli: Pick<CliContext, "out">): void {
  const steps = [...(last.earlier ?? []), last];
  cli.out(`cascade ${last.chain}: ${steps.length} of ${last.steps} models asked`);
  for (const step of steps) cli.out(`  ${step.step}. ${stepText(step)}`);
}

function stepText({ model, result, mean, tokens, threshold, why, decision }: CascadeRecord): string {
  const judged =
    mean === undefined ? "" : `, mean log probability ${mean.toFixed(3)} of ${tokens} tokens, threshold ${threshold}`;
  const where = decision?.attempts.at(-1)?.worker;
  const took = decision?.outcome === undefined ? "" : `, ${decision.outcome.totalMs.toFixed(0)} ms after its arrival`;
  const said = why === undefined ? "" : `: ${why}`;
  return `${model}${where === undefined ? "" : ` on ${where}`} ${RESULTS[result ?? "running"]}${judged}${said}${took}`;
}

const RESULTS = {
  kept: "kept: it was sure",
  escalated: "left to the next: it was not sure",
  failed: "failed",
  skipped: "skipped",
  last: "answers as the last, not judged",
  running: "runs",
} as const;
