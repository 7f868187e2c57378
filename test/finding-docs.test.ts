import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FINDINGS } from "../src/core/findings.ts";

const ROOT = join(import.meta.dirname, "..");
const [, text = ""] = readFileSync(join(ROOT, "docs/errors.md"), "utf8").split("\n# What cgn check finds\n");

/** The rows of a section's table, without its head. */
function rows(section: string): string[][] {
  const part = text.split(`\n## ${section}\n`)[1]?.split("\n## ")[0] ?? "";
  return part
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) => line.slice(2, -2).split(" | "));
}

const codes = (section: string): string[] => rows(section).map(([code = ""]) => code.replaceAll("`", ""));

/** Codes that stand in the sources as `code: "some-code"`. */
function codesIn(folder: string): string[] {
  const found = new Set<string>();
  for (const entry of readdirSync(join(ROOT, "src", folder), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/(?<!\.test|\.case)\.ts$/.test(entry.name)) continue;
    const source = readFileSync(join(entry.parentPath, entry.name), "utf8");
    for (const [, code = ""] of source.matchAll(/\bcode: "([a-z]+(?:-[a-z]+)+)"/g)) found.add(code);
  }
  return [...found];
}

describe("docs/errors.md, what cgn check finds", () => {
  it("has every finding with its error, what is and what mends it, and no other", () => {
    expect(rows("Of hosts and pairs")).toEqual(
      Object.entries(FINDINGS).map(([code, { error, about, mend }]) => [`\`${code}\``, error, about, mend]),
    );
  });

  it("has every warning of a plan, and no other", () => {
    const plans = [...codesIn("engines"), ...codesIn("config")].filter((code) => !(code in FINDINGS));
    expect(codes("Of plans")).toEqual([...new Set(plans)].filter((code) => code !== "offload-refused").sort());
  });

  it("has every code of files and of a host, and no other", () => {
    const elsewhere = (code: string): boolean => code in FINDINGS || codes("Of plans").includes(code);
    const own = codesIn("cli").filter((code) => !elsewhere(code));
    const known = ["config-invalid", "config-warning", "offload-refused", ...own];
    expect([...codes("Of files"), ...codes("Of a host")].sort()).toEqual([...new Set(known)].sort());
  });
});
