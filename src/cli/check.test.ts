import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkCommand } from "./check.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { configExplainCommand } from "./config-explain.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-check-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

async function run(command: Command, toml: string, options: Values = {}) {
  writeFileSync(join(dir, "c.toml"), toml);
  const out: string[] = [];
  const err: string[] = [];
  const cli: CliContext = {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    env: {},
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: { now: () => 0, wall: () => 0, after: () => () => {} },
  };
  const exit = await command.run({ options: { config: "c.toml", format: "text", ...options }, positionals: [] }, cli);
  return { out: out.join("\n"), err: err.join("\n"), exit: exit ?? 0 };
}

describe("cgn check", () => {
  it("check prints every problem as file:line:column and ends with 3", async () => {
    const toml = '[router]\nworker_threads = -1\nfoo = 1\n[engine]\nkind = "vlm"\n';
    const { out, err, exit } = await run(checkCommand, toml);
    expect(out.split("\n").map((line) => line.split(": ").slice(0, 3).join(": "))).toEqual([
      "c.toml:2:18: error: router.worker_threads",
      "c.toml:3:1: warning: router.foo",
      "c.toml:5:8: error: engine.kind",
    ]);
    expect([err, exit]).toEqual(["c.toml: 2 errors, 1 warning", 3]);
  });

  it("check prints JSON, and ends with 0 when there are only warnings", async () => {
    const { out, exit } = await run(checkCommand, "[router]\nfoo = 1\n", { format: "json" });
    expect(JSON.parse(out)).toMatchObject({
      file: "c.toml",
      errors: 0,
      warnings: 1,
      problems: [{ path: "router.foo", line: 2 }],
    });
    expect(exit).toBe(0);
  });

  it("check tells what is not TOML and what is not there like any other problem", async () => {
    expect(await run(checkCommand, "[engine]\nkind = vllm\n")).toMatchObject({
      out: 'c.toml:2:8: error: not TOML here: unexpected character. A text stands in quotes: key = "value"',
      exit: 3,
    });
    expect(await run(checkCommand, "", { config: "no.toml" })).toMatchObject({
      out: 'error: Cannot read "no.toml": it does not exist (named by --config). Name a file that is there, or start from one in recipes/',
      exit: 3,
    });
  });

  it("check shows what the engines' launches warn about", async () => {
    const { out, exit } = await run(checkCommand, '[engine]\nkv_offload = "kvbm"\n[models.a]\n');
    expect(out).toMatch(/warning: engine .* \(vllm, a\): /);
    expect(exit).toBe(0);
  });
});

describe("cgn config explain", () => {
  it("config explain prints key, value and origin in columns", async () => {
    const { out } = await run(configExplainCommand, '[router]\npolicy = "random"\n', { written: true });
    expect(out).toBe('router.policy  "random"  c.toml:2');
  });

  it("config explain prints JSON with each origin", async () => {
    const { out } = await run(configExplainCommand, '[router]\npolicy = "random"\n', {
      format: "json",
      set: ["kv.index_gib=2"],
    });
    const values = JSON.parse(out) as { key: string }[];
    expect(values.find((each) => each.key === "router.policy")).toEqual({
      key: "router.policy",
      value: "random",
      origin: { from: "file", file: "c.toml", path: "router.policy", line: 2, column: 10 },
      source: "c.toml:2",
    });
    expect(values.find((each) => each.key === "kv.index_gib")).toMatchObject({
      value: 2,
      source: "--set kv.index_gib",
    });
    expect(values.find((each) => each.key === "agent.heartbeat")).toMatchObject({ value: "5s", source: "default" });
  });
});
