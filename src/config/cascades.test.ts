import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type LoadedConfig, loadConfig } from "./load.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-cascades-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Each engine's model has a table of its own. */
function load(toml: string): LoadedConfig {
  const path = join(dir, "c.toml");
  const served = [...toml.matchAll(/^model = "(\w+)"$/gm)].map(([, model]) => model!);
  const missing = served.filter((model) => !toml.includes(`[models.${model}]`));
  writeFileSync(path, toml + missing.map((model) => `[models.${model}]\n`).join(""));
  return loadConfig({ path, env: {}, cwd: dir, host: SAMPLE_HOST });
}

const ON = "[router.cascade]\nenabled = true\n";
const engine = (model: string, port: number) =>
  `[[engines]]\nkind = "openai_compat"\nmodel = "${model}"\nurl = "http://127.0.0.1:${port}"\nspawn = false\n`;
const ENGINES = engine("a", 8101) + engine("b", 8102) + engine("c", 8103);
const chain = (name: string, list: string, more = "") => `[models.${name}]\ncascade = ${list}\n${more}`;

describe("cascades, in loadConfig()", () => {
  it("of a name of their own and of a model's have the router's threshold where none is written", () => {
    const { settings, problems } = load(
      `${ON}confidence_threshold = -0.7\njudge_tokens = 8\nunjudged = "keep"\n${ENGINES}` +
        chain("auto", '["a", "b", "c"]', "cascade_threshold = [-0.5, -0.4]\n") +
        chain("b", '"c"') +
        chain("any", '["a", "c"]', "cascade_threshold = -2\n"),
    );
    expect(problems).toEqual([]);
    const common = { tokens: 8, unjudged: "keep" };
    expect(settings.router.cascades).toEqual({
      auto: { ...common, name: "auto", models: ["a", "b", "c"], thresholds: [-0.5, -0.4] },
      b: { ...common, name: "b", models: ["c"], thresholds: [-0.7] },
      any: { ...common, name: "any", models: ["a", "c"], thresholds: [-2] },
    });
  });

  it("do nothing while the switch is off, and say so", () => {
    const { settings, problems } = load(ENGINES + chain("auto", '["a", "b"]'));
    expect(settings.router.cascades).toEqual({});
    expect(problems).toMatchObject([{ severity: "warning", path: "models.auto.cascade" }]);
    expect(problems[0]!.problem).toContain("[router.cascade].enabled is false");
    expect(load(ON + ENGINES).problems).toMatchObject([{ severity: "warning", path: "router.cascade.enabled" }]);
  });

  it.each([
    ["itself", chain("a", '["a"]'), "a → a"],
    ["a model that it names twice", chain("auto", '["a", "b", "a"]'), "auto → a → b → a"],
    ["itself by another chain", chain("a", '["b"]') + chain("b", '["c"]') + chain("c", '["a"]'), "a → b → c → a"],
  ])("that come back to %s are refused", (_what, toml, way) => {
    const errors = load(ON + ENGINES + toml).problems.filter(({ severity }) => severity === "error");
    expect(errors[0]!.problem).toContain(way);
    expect(errors[0]).toMatchObject({ line: expect.any(Number) });
  });

  it("with a model that no engine serves are refused, or warned of where engines are elsewhere", () => {
    expect(load(ON + ENGINES + chain("auto", '["a", "z"]')).problems).toMatchObject([
      { severity: "error", path: "models.auto.cascade" },
    ]);
    expect(load(ON + chain("auto", '["a", "z"]')).problems).toMatchObject([
      { severity: "warning" },
      { severity: "warning" },
    ]);
    expect(load(`${ON}${chain("auto", '["a", "z"]')}[models.a]\n[models.z]\n`).problems).toEqual([]);
  });

  it("with thresholds that cannot be are refused", () => {
    const many = load(ON + ENGINES + chain("auto", '["a", "b"]', "cascade_threshold = [-1, -1, -1]\n"));
    expect(many.problems).toMatchObject([{ severity: "error", path: "models.auto.cascade_threshold" }]);
    const above = load(ON + ENGINES + chain("auto", '["a", "b"]', "cascade_threshold = 0.5\n"));
    expect(above.problems).toMatchObject([{ severity: "error", path: "models.auto.cascade_threshold" }]);
  });
});
