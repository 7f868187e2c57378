import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { startUp, type Up } from "./helpers/up.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });
const ROOT = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(ROOT, "examples", path), "utf8");
const compose = spawnSync("sh", ["-c", "command -v docker-compose"], { encoding: "utf8" }).stdout.trim();

let up: Up;
beforeAll(async () => {
  up = await startUp(
    (ports, dir) => `[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "127.0.0.1:${ports.admin}"
[agent]
state_dir = "${dir}"
log_dir = "${dir}"
[kv]
uds = "${dir}/kv.sock"
index_dir = "${dir}/index"
[models."org/sim"]
tokenizer = "bytes"
[engine]
kind = "vllm"
url = "http://127.0.0.1:${ports.engines[0]}"
[engine.vllm]
binary = "${join(ROOT, "launchers", "sim-vllm.mjs")}"
`,
    1,
  );
});
afterAll(async () => {
  expect(await up.stop()).toBe(0);
});

/** Run one as its user would, beside this process, which must not stand still meanwhile. */
function run(command: string, ...args: string[]): Promise<{ readonly code: number | null; readonly said: string }> {
  const env = { ...process.env, CGN_URL: up.url, CGN_API_KEY: "unused", NO_PROXY: "*" };
  const child = spawn(command, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, said })));
}

describe("examples", () => {
  it("curl.sh shows an answer and who gave it", async () => {
    const { code, said } = await run("sh", "examples/curl.sh");
    expect(code, said).toBe(0);
    expect(said).toContain("model: org/sim");
    expect(said.toLowerCase()).toContain("x-cgn-node: ");
    expect(said).toContain('"chat.completion"');
  });

  it("openai-node.mjs has its second turn cached", async () => {
    const { code, said } = await run(process.execPath, "examples/openai-node.mjs");
    expect(code, said).toBe(0);
    expect(said.trim().split("\n")).toHaveLength(2);
    expect(said).toMatch(/: [1-9]\d* of \d+ tokens were cached\n$/);
  });

  it("anthropic-node.mjs streams", async () => {
    const { code, said } = await run(process.execPath, "examples/anthropic-node.mjs");
    expect(code, said).toBe(0);
    expect(said).toMatch(/\n[1-9]\d* tokens\n$/);
  });

  it("claude-code/settings.json: Anthropic's client with only these variables set is answered", async () => {
    const { env } = JSON.parse(read("claude-code/settings.json")) as { readonly env: Record<string, string> };
    expect(new URL(env["ANTHROPIC_BASE_URL"]!).pathname).toBe("/");
    const client = new Anthropic({ baseURL: up.url, authToken: env["ANTHROPIC_AUTH_TOKEN"]!, apiKey: null });
    // What Claude Code sends: a system prompt in marked parts, tools, a stream, and a count before it.
    const asked = {
      model: "org/sim",
      system: [{ type: "text" as const, text: "You are brief.", cache_control: { type: "ephemeral" as const } }],
      messages: [{ role: "user" as const, content: "Name a colour." }],
    };
    const tools = [{ name: "read", description: "Read a file", input_schema: { type: "object" as const } }];
    const first = await client.messages.stream({ ...asked, tools, max_tokens: 16 }).finalMessage();
    expect(first.usage.output_tokens).toBeGreaterThan(0);
    const call = { type: "tool_use" as const, id: "toolu_1", name: "read", input: { path: "a" } };
    const result = { type: "tool_result" as const, tool_use_id: "toolu_1", content: "red" };
    const messages = [
      ...asked.messages,
      { role: "assistant" as const, content: [call] },
      { role: "user" as const, content: [result] },
    ];
    const second = await client.messages.stream({ ...asked, messages, tools, max_tokens: 16 }).finalMessage();
    expect(second.role).toBe("assistant");
  });
});

describe("example files", () => {
  it.skipIf(compose === "")("docker-compose takes Open WebUI's", () => {
    const args = ["-f", "examples/open-webui/compose.yaml", "config"];
    const { status, stderr } = spawnSync(compose, args, { cwd: ROOT, encoding: "utf8" });
    expect(status, stderr).toBe(0);
  });

  it("LiteLLM's and Continue's name an address with /v1, and what their readers want", () => {
    const { model_list: models } = parse(read("litellm/config.yaml")) as {
      readonly model_list: readonly { readonly litellm_params: Readonly<Record<string, string>> }[];
    };
    expect(models[0]?.litellm_params["api_base"]).toMatch(/^http:.*\/v1$/);
    expect(models[0]?.litellm_params["model"]).toMatch(/^hosted_vllm\//);
    const own = parse(read("continue/config.yaml")) as {
      readonly schema: string;
      readonly models: readonly Readonly<Record<string, unknown>>[];
    };
    expect(own).toMatchObject({ schema: "v1", models: [{ provider: "openai" }] });
    expect(own.models[0]?.["apiBase"]).toMatch(/\/v1$/);
  });

  it("stand all in docs/clients.md", () => {
    const page = readFileSync(join(ROOT, "docs", "clients.md"), "utf8");
    for (const [, path = ""] of page.matchAll(/\(\.\.\/(examples\/[^)]+)\)/g))
      expect(existsSync(join(ROOT, path)), path).toBe(true);
    for (const path of [
      "curl.sh",
      "openai-node.mjs",
      "anthropic-node.mjs",
      "openai_python.py",
      "langchain_chat.py",
      "litellm/",
      "continue/",
      "open-webui/",
      "claude-code/",
    ])
      expect(page, path).toContain(`../examples/${path}`);
  });
});
