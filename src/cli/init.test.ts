import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freePort } from "../process/testing/harness.ts";
import type { CliContext, Values } from "./command.ts";
import { findEngines } from "./init/find-engines.ts";
import { findModels, modelName } from "./init/find-models.ts";
import { findRunning } from "./init/find-running.ts";
import { initCommand } from "./init.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-init-"));
  mkdirSync(join(dir, "bin"));
  writeFileSync(join(dir, "bin", "llama-server"), "#!/bin/sh\n");
  chmodSync(join(dir, "bin", "llama-server"), 0o755);
  mkdirSync(join(dir, "models", "deep"), { recursive: true });
  for (const name of ["q-00001-of-00002.gguf", "q-00002-of-00002.gguf", "mmproj-q.gguf"])
    writeFileSync(join(dir, "models", "deep", name), "GGUF");
});
afterEach(() => rmSync(dir, { recursive: true }));

async function init(options: Values) {
  const out: string[] = [];
  const err: string[] = [];
  const cli: CliContext = {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    env: { PATH: join(dir, "bin"), HOME: dir, XDG_CACHE_HOME: dir },
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: { now: () => 0, wall: () => 0, after: () => () => {} },
  };
  const exit = await initCommand.run({ options: { output: "cgn.toml", ...options }, positionals: [] }, cli);
  return { exit, out: out.join("\n"), err: err.join("\n") };
}

const LLAMA = { engine: "llama_cpp", yes: true };

describe("cgn init", () => {
  it("finds the engine and the model, writes the file and says the next command", async () => {
    const { exit, err } = await init(LLAMA);
    const text = readFileSync(join(dir, "cgn.toml"), "utf8");
    expect(exit).toBe(0);
    expect(text).toContain(`path = "${join(dir, "models", "deep", "q-00001-of-00002.gguf")}"`);
    expect(text).toContain('[models."q"]');
    expect(text).toContain('mode = "binary"');
    expect(err).toContain("cgn up");
  });

  it("never replaces a file without --force, and prints without writing", async () => {
    writeFileSync(join(dir, "cgn.toml"), "mine");
    await expect(init(LLAMA)).rejects.toThrow("it is there already. Add --force");
    const { out } = await init({ ...LLAMA, print: true });
    expect(out).toContain('kind = "llama_cpp"');
    expect(readFileSync(join(dir, "cgn.toml"), "utf8")).toBe("mine");
    await init({ ...LLAMA, force: true });
    expect(readFileSync(join(dir, "cgn.toml"), "utf8")).toContain('kind = "llama_cpp"');
    expect(readdirSync(dir).sort()).toEqual(["bin", "cgn.toml", "models"]);
  });

  it("writes nothing for an offload that the engine does not have", async () => {
    await expect(init({ ...LLAMA, kvOffload: "lmcache" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    expect(existsSync(join(dir, "cgn.toml"))).toBe(false);
  });

  it("says that a model which is named is not here, and makes its path absolute", async () => {
    const { out, err } = await init({ ...LLAMA, model: "./none.gguf", print: true });
    expect(out).toContain(`path = "${join(dir, "none.gguf")}"`);
    expect(err).toContain(`there is no ${join(dir, "none.gguf")} on this host`);
  });

  it("proposes no GGUF file to an engine that is made for folders", async () => {
    await expect(init({ engine: "vllm", yes: true })).rejects.toThrow(
      "Name a folder, or a name on the Hugging Face hub",
    );
  });

  it("asks nobody where there is no terminal", async () => {
    await expect(init({})).rejects.toThrow("Cannot ask: the input is no terminal. Add --yes");
  });

  it("adopts an engine that runs, whatever it is", async () => {
    const { server, url } = await openAi("some/model");
    try {
      await init({ url: `${url}/v1`, yes: true });
      const text = readFileSync(join(dir, "cgn.toml"), "utf8");
      expect(text).toContain(`url = "${url}"`);
      expect(text).toContain('[models."some/model"]');
    } finally {
      server.close();
    }
    const gone = init({ url: `http://127.0.0.1:${await freePort()}`, yes: true, force: true });
    await expect(gone).rejects.toMatchObject({ code: "DEPENDENCY_UNREACHABLE" });
    await expect(gone).rejects.toThrow("nobody listens there. Start the engine first");
    await expect(init({ url: "nonsense", yes: true, force: true })).rejects.toMatchObject({ code: "BAD_INVOCATION" });
  });

  // It said of cgn's own endpoint, and of one that wants a key, "it names no model there".
  it.each([
    ["an endpoint of cgn", { owned_by: "cgn" }, 200, "that is an endpoint of cgn already. Name an engine behind it"],
    ["one that asks for a key", {}, 401, "it asks for an API key (401)"],
    ["what is no engine", {}, 404, "it answers /v1/models with 404"],
    ["one without a model", { id: undefined }, 200, "it names no model there"],
  ])("says of %s why it cannot be adopted", async (_, more, status, words) => {
    const { server, url } = await openAi("m", more, status);
    await expect(init({ url, yes: true, print: true })).rejects.toThrow(`Cannot adopt ${url}: ${words}`);
    server.close();
  });
});

describe("findRunning()", () => {
  it("tells engines from those who say nothing in time, and leaves out the rest", async () => {
    const engine = await openAi("m");
    const own = await openAi("m", { owned_by: "cgn" });
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const ports = [engine.url, own.url].map((url) => Number(new URL(url).port));
    const { port } = silent.address() as { port: number };
    const found = await findRunning([...ports, port, await freePort()], 3_000);
    expect(found.running.map(({ url }) => url)).toEqual([engine.url]);
    expect(found.silent).toEqual([`http://127.0.0.1:${port}`]);
    for (const server of [engine.server, own.server, silent]) server.closeAllConnections();
    for (const server of [engine.server, own.server, silent]) server.close();
  });
});

describe("findEngines()", () => {
  it("names a Python that did not tell its packages, and asks each once", async () => {
    mkdirSync(join(dir, ".venv", "bin"), { recursive: true });
    for (const name of ["python3", "vllm"]) {
      writeFileSync(join(dir, ".venv", "bin", name), `#!${join(dir, ".venv", "bin", "python3")}\n`);
      chmodSync(join(dir, ".venv", "bin", name), 0o755);
    }
    const asked: string[] = [];
    const env = { PATH: join(dir, "bin"), HOME: dir, XDG_CACHE_HOME: dir };
    const found = await findEngines(env, dir, async (python) => void asked.push(python));
    // A clone may have the demo's beside it.
    expect(found.silent).toContain(join(dir, ".venv", "bin", "python3"));
    expect(found.installed.map(({ engine }) => engine.kind)).toEqual(["llama_cpp"]);
    expect(new Set(asked)).toEqual(new Set(found.silent));
  });
});

async function openAi(model: string, more: object = {}, status = 200): Promise<{ server: Server; url: string }> {
  const server = createServer((req, res) => {
    res.statusCode = req.url === "/v1/models" ? status : 404;
    res.end(JSON.stringify({ object: "list", data: [{ id: model, object: "model", ...more }] }));
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${port}` };
}

describe("findModels()", () => {
  it("gives one model for a file in parts, and no projector", async () => {
    const found = await findModels({ HOME: dir, XDG_CACHE_HOME: dir }, join(dir, "bin"));
    const here = found.filter(({ target }) => target.startsWith(dir));
    expect(here.map(({ name, layout }) => [name, layout])).toEqual([["q", "gguf"]]);
  });

  it.each([
    ["/m/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M"],
    ["/m/big-00001-of-00009.gguf", "big"],
    ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B"],
    ["/models/qwen", "qwen"],
  ])("modelName() of %s is %s", (target, name) => {
    expect(modelName(target)).toBe(name);
  });
});
