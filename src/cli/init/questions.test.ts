import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { findEngine } from "../../engines/registry.ts";
import { askAtTerminal, DEFAULTS } from "./asker.ts";
import { layoutOf } from "./look.ts";
import { askAll, type Given, type HostLook, readGpus } from "./questions.ts";

const GIB = 1024 ** 3;
const LOOK: HostLook = {
  installed: [],
  running: [],
  silent: [],
  models: [],
  gpus: [],
  memoryBytes: 64 * GIB,
  freePort: async (from, taken) => (taken.includes(from) ? from + 1 : from),
  layoutOf,
};
const GPUS = [0, 1, 2, 3].map((index) => ({
  index,
  name: "H100",
  totalBytes: 80 * GIB,
  usedBytes: index === 0 ? 70 * GIB : 0,
}));
const VLLM = {
  engine: findEngine("vllm"),
  options: {},
  program: "/venv/bin/vllm",
  version: "0.32.0",
  offloads: ["none", "nixl", "lmcache"],
} as const;
const LLAMA = {
  engine: findEngine("llama_cpp"),
  options: { mode: "binary" },
  program: "/usr/bin/llama-server",
  offloads: ["none"],
} as const;
const GGUF = { layout: "gguf", target: "/models/q.gguf", name: "q", bytes: 4 * GIB } as const;
const HUB = { layout: "folder", target: "org/m", name: "org/m", bytes: 60 * GIB } as const;

/** The choices after these lines at a terminal, and what was shown. */
async function answered(lines: readonly string[], look: Partial<HostLook>, given: Partial<Given> = {}) {
  const input = new PassThrough();
  const signal = new AbortController().signal;
  let shown = "";
  const asker = askAtTerminal({ input, write: (text) => void (shown += text), signal });
  input.end(lines.map((line) => `${line}\n`).join(""));
  const choices = await askAll(asker, { cwd: "/", ...given }, { ...LOOK, ...look });
  return { choices, shown };
}

describe("askAll()", () => {
  it("takes what is proposed for empty answers: the engine with a model, free GPUs, the offload that is installed", async () => {
    const look = { installed: [LLAMA, VLLM], models: [HUB], gpus: GPUS };
    const { choices, shown } = await answered(["", "", "", "", "", "", ""], look);
    expect(choices).toMatchObject({
      engine: { kind: "vllm" },
      target: "org/m",
      name: "org/m",
      gpus: [1, 2],
      offload: "lmcache",
      port: 8080,
      adminPort: 9091,
      enginePort: 8000,
    });
    expect(shown).toContain("2  vllm 0.32.0, started by cgn (/venv/bin/vllm)");
    expect(shown).toContain("sglang, not installed here: pip install");
    expect(await askAll(DEFAULTS, { cwd: "/" }, { ...LOOK, ...look })).toEqual(choices);
  });

  it("proposes an engine that runs, and asks only for its model and the endpoint's port", async () => {
    const running = [{ url: "http://127.0.0.1:11434", kind: "openai_compat", models: ["a", "b"] }] as const;
    const { choices } = await answered(["", "2", "8081"], { running, installed: [LLAMA] });
    expect(choices).toMatchObject({ url: "http://127.0.0.1:11434", name: "b", port: 8081 });
    expect(choices).not.toHaveProperty("target");
  });

  it("tells what is wrong with an answer, and asks again", async () => {
    const look = { installed: [LLAMA], models: [GGUF], gpus: GPUS };
    const { choices, shown } = await answered(["9", "1", "two", "", "", "7", "1", "99999", "", ""], look);
    expect(shown).toContain('"9" is none of them. Write a number from 1 to');
    expect(shown).toContain("Write numbers of them, for example 0,1");
    expect(shown).toContain("Write a port from 1 to 65535");
    expect(choices).toMatchObject({ gpus: [1], options: { mode: "binary", n_gpu_layers: -1 } });
  });

  it("asks only for what no flag says", async () => {
    const given = { engine: LLAMA.engine, model: "q.gguf", name: "n", port: 1, enginePort: 2, cwd: "/home/u" };
    const { choices, shown } = await answered([], { installed: [LLAMA] }, given);
    expect(choices).toMatchObject({ target: "/home/u/q.gguf", name: "n", port: 1, enginePort: 2 });
    expect(shown).toBe("");
  });

  it("ends with what to do when there is nothing to propose and nobody to ask", async () => {
    const told = (look: Partial<HostLook>) => askAll(DEFAULTS, { cwd: "/" }, { ...LOOK, ...look });
    await expect(told({})).rejects.toMatchObject({ code: "ENGINE_NOT_FOUND" });
    await expect(told({})).rejects.toThrow(/pip install .*--engine or --url/);
    const silent = ["/venv/bin/python3 did not tell which packages it has: engines in it are not known"];
    await expect(told({ silent })).rejects.toThrow(/none was found, and \/venv\/bin\/python3 did not tell .*Try again/);
    await expect(told({ installed: [LLAMA], models: [HUB] })).rejects.toThrow("Name a .gguf file with --model");
  });
});

describe("askAtTerminal()", () => {
  it("rejects when the input ends before the answer, and on a stop signal", async () => {
    await expect(answered(["1"], { installed: [LLAMA], models: [GGUF] })).rejects.toMatchObject({
      code: "CALLER_LEFT",
    });
    const stop = new AbortController();
    const asker = askAtTerminal({ input: new PassThrough(), write: () => undefined, signal: stop.signal });
    const asked = asker.text("Port", "1");
    stop.abort("SIGINT");
    await expect(asked).rejects.toThrow("Interrupted: nothing was written");
  });
});

describe("readGpus()", () => {
  it.each([
    ["0,1", [0, 1]],
    ["2 2, 3", [2, 3]],
    ["", undefined],
    ["a", undefined],
    ["-1", undefined],
  ])("reads %j", (text, expected) => {
    expect(readGpus(text)).toEqual(expected);
  });
});
