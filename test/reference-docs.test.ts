import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CODES } from "../src/core/errors.ts";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

describe("docs that are written by hand", () => {
  it("docs/errors.md has every code with its figures, and no other", () => {
    const text = read("docs/errors.md");
    const headings = [...text.matchAll(/^## (\w+)$/gm)].map(([, code]) => code);
    expect(headings.sort()).toEqual(Object.keys(CODES).sort());
    for (const [code, row] of Object.entries(CODES)) {
      const section = text.split(`\n## ${code}\n`)[1]?.split("\n## ")[0] ?? "";
      expect(section, code).toContain(
        `HTTP ${row.http}, exit ${row.exit}, ${row.retry ? "retry may help" : "no retry"}`,
      );
    }
  });

  it("docs/dependencies.md names every dependency, and no other", () => {
    type Sort = "dependencies" | "optionalDependencies" | "devDependencies";
    const pkg = JSON.parse(read("package.json")) as Record<Sort, Record<string, string>>;
    const installed = { ...pkg.dependencies, ...pkg.optionalDependencies };
    const [run = "", dev = ""] = read("docs/dependencies.md").split("Only for development:");
    const named = (text: string) => [...text.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name).sort();
    expect(named(run)).toEqual(Object.keys(installed).sort());
    expect(named(dev)).toEqual(Object.keys(pkg.devDependencies).sort());
    for (const version of Object.values({ ...installed, ...pkg.devDependencies })) {
      expect(version, "pinned").toMatch(/^\d/);
    }
  });
});
