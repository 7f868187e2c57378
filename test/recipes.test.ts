import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { configJsonSchema } from "../src/config/json-schema.ts";
import { loadConfig } from "../src/config/load.ts";
import { announceEngine, planEngine } from "../src/config/plan.ts";
import { formatProblem } from "../src/config/problems.ts";
import { SAMPLE_HOST } from "../src/config/sample-host.ts";
import { parseToml } from "../src/config/toml.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const tomlFiles = (dir: string): string[] =>
  readdirSync(join(ROOT, dir), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".toml"))
    .sort()
    .map((name) => join(dir, name));

const RECIPES = tomlFiles("recipes");
const validate = new Ajv2020({ strict: false, allErrors: true }).compile(configJsonSchema());
const load = (path: string) => loadConfig({ path, cwd: ROOT, env: {}, host: SAMPLE_HOST });

describe("recipes", () => {
  it.each(RECIPES)(
    "%s loads without an error, and with no warning but for what this version does not do yet",
    (path) => {
      const said = load(path).problems.map(formatProblem);
      expect(said.filter((line) => !/ warning: .*this version of cgn/.test(line))).toEqual([]);
    },
  );

  it.each([...RECIPES, ...tomlFiles("test/fixtures/config")])("%s fits cgn.schema.json", (path) => {
    validate(parseToml(readFileSync(join(ROOT, path), "utf8"), path).value);
    expect(validate.errors ?? []).toEqual([]);
  });

  it.each(RECIPES)("%s plans the same twice, and announces what it plans", (path) => {
    const plans = (): string => JSON.stringify(load(path).settings.engines.map((engine) => planEngine(engine)));
    expect(plans()).toBe(plans());
    expect(load(path).settings.engines.length).toBeGreaterThan(0);
    for (const engine of load(path).settings.engines) expect(announceEngine(engine).kv).toBeDefined();
  });
});
