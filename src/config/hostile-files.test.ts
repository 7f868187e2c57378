import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { ENGINES } from "../engines/registry.ts";
import { configSchema } from "./config-schema.ts";
import { explainConfig } from "./explain.ts";
import { loadConfig } from "./load.ts";
import { SAMPLE_HOST } from "./sample-host.ts";
import { schemaKeys } from "./schema-walk.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-hostile-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

/** Load it and look at all of it; the only failure is one in words. */
function survive(toml: string, env: Record<string, string> = {}): void {
  writeFileSync(join(dir, "c.toml"), toml);
  try {
    const loaded = loadConfig({ path: "c.toml", cwd: dir, env, host: SAMPLE_HOST });
    explainConfig(loaded);
    for (const problem of loaded.problems) {
      expect(problem.problem).not.toMatch(/undefined|NaN|\[object|Invalid input/);
      if (problem.file === "c.toml" && problem.path !== "") expect(problem.line).toBeGreaterThan(0);
    }
  } catch (e) {
    if (!isCgnError(e)) throw e;
    expect(e.code).toBe("CONFIG_INVALID");
  }
}

const KEYS = schemaKeys(configSchema(ENGINES));
const VALUES = [
  '"text"',
  '""',
  "0",
  "-1",
  "1.5",
  "1e300",
  "99999999999999999999",
  "nan",
  "inf",
  "true",
  "[]",
  '["a", 1]',
  "[[1]]",
  "{}",
  "{ a = 1 }",
  "[{ a = 1 }]",
  "2026-11-29",
  "2026-11-29T10:00:00Z",
  '"5s"',
  '"127.0.0.1:80"',
  '"http://h:1"',
  '"vllm"',
  '"decode"',
];

/** A key of the schema as a dotted TOML key; entries of `[[engines]]` are written as a list of one table. */
function assignment(path: readonly string[], value: string): string {
  const index = path.indexOf("[]");
  if (index < 0) return `${path.map((step) => (step === "NAME" ? '"m/x"' : step)).join(".")} = ${value}`;
  const inner = path.slice(index + 1).join(".");
  return `${path.slice(0, index).join(".")} = [${inner === "" ? value : `{ ${inner} = ${value} }`}]`;
}

describe("loadConfig() with files that mean harm", () => {
  it("loadConfig() tells in words what is wrong with any value at any key", () => {
    fc.assert(
      fc.property(fc.constantFrom(...KEYS), fc.constantFrom(...VALUES), (key, value) =>
        survive(assignment(key.path, value)),
      ),
      { numRuns: 400 },
    );
  });

  it("loadConfig() survives several odd values together", () => {
    const line = fc
      .tuple(fc.constantFrom(...KEYS), fc.constantFrom(...VALUES))
      .map(([key, value]) => assignment(key.path, value));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => survive(lines.join("\n"))),
      { numRuns: 150 },
    );
  });

  it("loadConfig() survives any text, as a file and as a variable", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string(), (text, value) => {
        survive(text, {
          CGN__ENGINE__KIND: value,
          CGN__ENGINES: value,
          CGN__MODELS: value,
          CGN__: value,
          CGN__MODELS____TP: value,
        });
      }),
      { numRuns: 150 },
    );
  });

  it("loadConfig() keeps keys named like JavaScript's own to themselves", () => {
    survive(
      '[__proto__]\na = 1\n[models.__proto__]\ntp = 2\n[models.constructor]\ntp = 3\n[engine]\nkind = "vllm"\nmodel = "toString"\n',
    );
    expect(({} as { tp?: number }).tp).toBeUndefined();
  });

  it("loadConfig() survives deep nesting", () => {
    survive(`a = ${"[".repeat(300)}${"]".repeat(300)}`);
    survive(`${"a.".repeat(300)}a = 1`);
  });
});
