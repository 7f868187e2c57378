import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { expect } from "vitest";
import type { LaunchPlan } from "../core/launch-plan.ts";

/**
 * Compare a text with a golden file, or write the file when the environment has GOLDEN=1 (`npm run golden`).
 *
 * @param path - absolute, for example `join(import.meta.dirname, "testdata", "nixl-prefill.golden")`
 */
export function expectGolden(text: string, path: string): void {
  if (process.env["GOLDEN"] === "1") writeFileSync(path, text);
  expect(existsSync(path), `${path} is missing: run npm run golden`).toBe(true);
  expect(text).toBe(readFileSync(path, "utf8"));
}

/** A plan to read in a diff: one word of argv a line, then what else the engine gets. */
export function goldenText(plan: LaunchPlan): string {
  const env = Object.entries(plan.env).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : "(secret)"}`,
  );
  const ports = plan.ports.map((p) => `${p.name} ${p.port}${p.count === undefined ? "" : ` x${p.count}`}`);
  const sections: [string, readonly string[]][] = [
    ["argv", plan.argv],
    ["env", env],
    ["ports", ports],
    ...plan.sidecars.map((s): [string, readonly string[]] => [`sidecar ${s.name}`, s.argv]),
    ["files", plan.files.map((f) => f.path)],
    ["requires", plan.requires.map((r) => [r.what, r.name, r.range ?? ""].join(" ").trim())],
    ["warnings", plan.warnings.map((w) => w.code)],
  ];
  const filled = sections.filter(([, lines]) => lines.length > 0);
  return filled.map(([title, lines]) => `# ${title}\n${lines.join("\n")}\n`).join("\n");
}
