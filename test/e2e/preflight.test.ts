import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Agent, createAgent } from "../../src/agent/agent.ts";
import { settingsFrom } from "../../src/agent/testing/settings.ts";
import { checkCommand } from "../../src/cli/check.ts";
import type { CliContext, Command, Values } from "../../src/cli/command.ts";
import { renderCommand } from "../../src/cli/render.ts";
import { createMemoryDirectory } from "../../src/cluster/memory-directory.ts";
import { CODES } from "../../src/core/errors.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { CLOCK, freePort, until } from "../../src/process/testing/harness.ts";
import { runCgn } from "../helpers/cgn-process.ts";

let dir: string;
let port: number;
let agent: Agent | undefined;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "cgn-preflight-"));
  port = await freePort();
  // A "venv": a Python that answers what it has, and a console script that notes that it was started.
  program("python3", `echo "$(cat ${join(dir, "answer.json")})"`);
  program("vllm", `echo started >> ${join(dir, "started")}`, `#!${join(dir, "python3")}\n# for `);
  writeFileSync(join(dir, "config.json"), "{}");
  // The least that is a whole safetensors file: the length of its header, and an empty one.
  writeFileSync(join(dir, "model.safetensors"), Buffer.from([2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7d]));
});
afterEach(async () => {
  await agent?.stop();
  agent = undefined;
  rmSync(dir, { recursive: true, force: true });
});

function program(name: string, line: string, first = "#!/bin/sh\n"): void {
  writeFileSync(join(dir, name), `${first}${line}\n`);
  chmodSync(join(dir, name), 0o755);
}

function installed(versions: Readonly<Record<string, string>>): void {
  const found = Object.fromEntries(
    Object.entries({ pip: "24.0", ...versions }).map(([name, version]) => [name, { version }]),
  );
  writeFileSync(join(dir, "answer.json"), JSON.stringify({ found, places: [dir] }));
}

const toml = (offload: string, role = "both"): string => `[models.m]
path = "${dir}"
[agent]
platform = "cpu"
[engine]
kind = "vllm"
url = "http://127.0.0.1:${port}"
kv_offload = "${offload}"
role = "${role}"
[engine.vllm]
binary = "${join(dir, "vllm")}"
`;

/** A command in this process, on the file that lies there. */
async function run(command: Command, options: Values = {}): Promise<{ code: number; out: string }> {
  let out = "";
  const cli: CliContext = {
    out: (text) => void (out += `${text}\n`),
    err: () => {},
    env: process.env,
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: CLOCK,
  };
  const format = command === checkCommand ? "text" : "shell";
  const code = await command.run({ options: { config: "cgn.toml", format, ...options }, positionals: [] }, cli);
  return { code: code ?? 0, out };
}

function start(text: string): Agent {
  agent = createAgent({
    settings: settingsFrom(dir, text),
    directory: createMemoryDirectory(),
    clock: CLOCK,
    log: SILENT_LOG,
    env: process.env,
    policy: { backoffMs: 10 },
  });
  return agent;
}

describe("a start that preflight refuses", () => {
  it("ends with what is missing in words, starts nothing and does not try again", async () => {
    installed({ vllm: "0.32.0+cpu" });
    const agent = start(toml("nixl"));
    agent.start();
    await until("given up", () => agent.status()[0]?.failed === true);
    const [engine] = agent.status();
    expect(engine?.worker.reason).toContain(`the Python package nixl is not installed in ${join(dir, "python3")}`);
    expect(engine?.error).toMatchObject({ code: "ENGINE_NOT_FOUND", details: { finding: "package-missing" } });
    expect(engine?.error?.details).toHaveProperty("fix", `${join(dir, "python3")} -m pip install 'nixl>=1.3.2'`);
    expect(engine?.starts).toBe(0);
    expect(() => readFileSync(join(dir, "started"))).toThrow();
  });

  it("is told by cgn up too, with the exit code of its error", async () => {
    installed({ vllm: "0.32.0+cpu" });
    writeFileSync(join(dir, "cgn.toml"), toml("lmcache"));
    const { code, err } = await runCgn(
      ["agent", "--config", join(dir, "cgn.toml"), "--listen", "127.0.0.1:0"],
      {},
      dir,
    );
    expect(err).toContain("the Python package lmcache is not installed");
    expect(code).toBe(CODES.ENGINE_NOT_FOUND.exit);
  });
});

describe("cgn check --host and cgn render on that host", () => {
  it("print what would mend it, and render for the version that is there", async () => {
    installed({ vllm: "0.17.1" });
    writeFileSync(join(dir, "cgn.toml"), toml("nixl"));
    const check = await run(checkCommand, { host: true, fix: true });
    expect(check.code).toBe(CODES.ENGINE_NOT_FOUND.exit);
    expect(check.out).toMatch(/^cgn\.toml:8:14: error: .*nixl is not installed.* \[package-missing\]$/m);
    expect(check.out).toContain(`    ${join(dir, "python3")} -m pip install 'nixl>=1.3.2'\n`);
    expect(check.out).toMatch(/vLLM 0\.17\.1 is not among the versions .* \[engine-version\]/);
    expect((await run(renderCommand)).out).not.toContain("--shutdown-timeout");
    expect((await run(renderCommand, { detect: false })).out).toContain("--shutdown-timeout");
    expect((await run(renderCommand, { engineVersion: ["vllm=0.32.0"] })).out).toContain("--shutdown-timeout");
  });
});
