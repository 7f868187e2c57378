import type { Results } from "./answers.ts";
import { agrees } from "./wrong.ts";

/** How much of a run came out wrong. */
export function failures({ cells, wrong, live }: Results): number {
  return (
    cells.filter(({ ok }) => !ok).length + wrong.filter((a) => !agrees(a)).length + live.filter(({ ok }) => !ok).length
  );
}

/** The table at the end of a run. */
export function summaryText(results: Results, missing: ReadonlyMap<string, string>): string {
  const lines = [line("program", "cells", "taken", "wrong ones", "refused by both", "reasoned")];
  for (const name of programsOf(results)) {
    const cells = results.cells.filter((a) => `${a.program} ${a.version}` === name);
    const wrong = results.wrong.filter((a) => `${a.program} ${a.version}` === name);
    const both = wrong.filter((a) => a.code !== "" && a.refused).length;
    const reasoned = wrong.filter((a) => agrees(a) && !a.refused).length;
    const count = (n: number): string => (wrong.length === 0 ? "" : String(n));
    lines.push(
      line(
        name,
        String(cells.length),
        String(cells.filter(({ ok }) => ok).length),
        count(wrong.length),
        count(both),
        count(reasoned),
      ),
    );
  }
  for (const { name, ok, seconds, said } of results.live) {
    lines.push(`${ok ? "✓" : "✗"} started ${name.padEnd(18)} ${`${seconds} s`.padStart(6)}  ${said.split("\n")[0]}`);
  }
  for (const a of results.cells)
    if (!a.ok)
      lines.push(
        `✗ ${a.program} ${a.version} refuses ${a.kind}/${a.offload}/${a.role}/${a.variant} (${a.stage}): ${a.error}`,
      );
  for (const a of results.wrong) {
    if (a.code === "") lines.push(`✗ cgn does not refuse for ${a.program}: ${a.name}`);
    else if (!agrees(a))
      lines.push(`✗ ${a.program} ${a.version} takes, and no reason is written why cgn refuses: ${a.name}`);
  }
  for (const [name, why] of missing) lines.push(`- ${name} was left out: ${why}`);
  const bad = failures(results);
  lines.push(bad === 0 ? "All as it must be." : `${bad} not as it must be.`);
  return lines.join("\n");
}

function programsOf({ cells, wrong }: Results): string[] {
  return [...new Set([...cells, ...wrong].map((a) => `${a.program} ${a.version}`))];
}

function line(name: string, ...columns: readonly string[]): string {
  const [cells = "", taken = "", wrong = "", both = "", reasoned = ""] = columns;
  return `${name.padEnd(26)}${cells.padStart(6)}${taken.padStart(7)}${wrong.padStart(12)}${both.padStart(17)}${reasoned.padStart(10)}`;
}
