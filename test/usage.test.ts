import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
// @ts-expect-error: a script without types
import { argumentProblem, benchmarks, USAGES, usageText } from "../scripts/usage.mjs";

const at = (path: string): URL => new URL(`../${path}`, import.meta.url);
const scripts = (JSON.parse(readFileSync(at("package.json"), "utf8")) as { scripts: Record<string, string> }).scripts;
/** Those that are run for what they show. */
const SHOWN = Object.keys(scripts).filter((name) => name.startsWith("test:") || name === "bench");

function run(name: string, ...args: string[]) {
  const [, script = ""] = scripts[name]!.split(" ");
  const { status, stdout, stderr } = spawnSync(process.execPath, [at(script).pathname, ...args], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

describe("npm run NAME", () => {
  it.each(SHOWN)("%s -- --help says at once what it takes and how long it runs", (name) => {
    expect(run(name, "--help")).toEqual({ status: 0, stdout: usageText(name), stderr: "" });
    expect(usageText(name)).toMatch(/^Takes .*(?:second|minute|hour)/m);
  });

  it.each(SHOWN)("%s refuses an option that is none by name", (name) => {
    const { status, stderr } = run(name, "--banana");
    expect([status, stderr.split("\n", 1)[0]]).toEqual([
      2,
      `Cannot run ${name}: there is no option "--banana". What there is:`,
    ]);
  });

  it("bench lists every benchmark, and wants one", () => {
    for (const line of benchmarks()) expect(existsSync(at(`bench/${line.split(" ", 1)[0]}.ts`)), line).toBe(true);
    expect(benchmarks().length).toBeGreaterThan(10);
    expect(run("bench").stderr).toMatch(/^Cannot run bench: no benchmark is named/);
    expect(run("bench", "--seed", "1", "nosuch").stderr).toMatch(/^Cannot run bench: there is no benchmark "nosuch"/);
  });
});

describe("argumentProblem()", () => {
  it("knows each script's options and which have values", () => {
    expect(Object.keys(USAGES).sort()).toEqual(SHOWN.toSorted());
    expect(argumentProblem("test:soak", ["0.5", "--seed", "7"])).toBeUndefined();
    expect(argumentProblem("test:soak", ["--seed=7"])).toBeUndefined();
    expect(argumentProblem("test:soak", ["--seed"])).toBe("--seed has no value");
    expect(argumentProblem("test:soak", ["soon"])).toBe('"soon" is no number of them');
    expect(argumentProblem("test:pack", ["--short"])).toBeUndefined();
    expect(argumentProblem("test:web", ["dark"])).toBe('it takes no "dark"');
    expect(argumentProblem("bench", ["proxy", "--against", "a=http://b,1", "--json"])).toBeUndefined();
  });
});
