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

async function run(command: Command, toml: string, options: Values = {}, positionals: string[] = []) {
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
  const exit = await command.run({ options: { config: "c.toml", format: "text", ...options }, positionals }, cli);
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

  it("check warns of a version that is given for a kind that is not in the file", async () => {
    // `--engine-version sglang=0.5.22` on a file with vLLM only was taken without a word.
    const toml = '[models.m]\npath = "/m"\n[engine]\nkind = "vllm"\n';
    const { out, exit } = await run(checkCommand, toml, { engineVersion: ["sglang=0.5.22", "vllm=0.32.0"] });
    expect(out).toContain("--engine-version is given for sglang, and no engine of that kind is here (there is vllm)");
    expect(out).not.toContain("given for vllm");
    expect(exit).toBe(0);
  });

  it("check says of a version out of range what docs/errors.md says", async () => {
    // The page spoke of the nearest known version, the message of the unknown one's.
    const toml = '[models.m]\npath = "/m"\n[engine]\nkind = "vllm"\n';
    const old = await run(checkCommand, toml, { engineVersion: ["0.20.0"] });
    expect(old.out).toContain("rendered by what is known of older ones, which nobody tried");
    const young = await run(checkCommand, toml, { engineVersion: ["9.0.0"] });
    expect(young.out).toMatch(/rendered as for \d+\.\d+\.\d+, the newest of them/);
  });

  it("check looks at several files at once, and at what prefill and decode must agree in", async () => {
    const side = (role: string, port: number, block: number): string =>
      `[models.m]\npath = "/m"\n[kv]\nblock_size_tokens = ${block}\n[engine]\nkind = "vllm"\nrole = "${role}"\n` +
      `kv_offload = "nixl"\nport = ${port}\n`;
    writeFileSync(join(dir, "p.toml"), side("prefill", 8001, 32));
    const both = (block: number) => run(checkCommand, side("decode", 8002, block), {}, ["p.toml", "c.toml"]);
    const { out, err, exit } = await both(16);
    expect(out).toMatch(
      /^c\.toml:4:21: error: kv\.block_size_tokens: the block size is 32 on .* \[pair-block-size\]$/m,
    );
    expect([err.split(":")[0], exit]).toEqual(["p.toml, c.toml", 3]);
    expect((await both(32)).exit).toBe(0);
  });

  it("check gives every problem a code in JSON", async () => {
    const toml = '[router]\nfoo = 1\n[models.m]\n[engine]\nkind = "mlx"\nkv_offload = "nixl"\n';
    const { out } = await run(checkCommand, toml, { format: "json" });
    const { problems } = JSON.parse(out) as { problems: { code: string }[] };
    expect(problems.map(({ code }) => code)).toEqual(["config-warning", "offload-refused"]);
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
