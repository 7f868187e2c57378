import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { CASES } from "../../conformance/differential/cases.ts";
import { compare } from "../../conformance/differential/compare.ts";
import { type ComparedKind, whyKnown } from "../../conformance/differential/known.ts";
import { type Recorded, readRecorded, record } from "../../conformance/differential/record.ts";
import { ensureRealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir, LAUNCHERS } from "../../src/cli/places.ts";
import { freePort } from "../../src/process/testing/harness.ts";
import { until } from "../helpers/cgn-process.ts";

/** The starter of `npm test` says whether Python and the wheels are there. */
const HERE = process.env["CGN_REAL_ENGINE"] === "1";

const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends.splice(0)) end();
});

/** What was given to the real engines, in the places of the simulated ones. */
const ARGV: Readonly<Record<ComparedKind, readonly string[]>> = {
  llama_cpp: "-m /models/smollm2.gguf --alias smollm2 -c 8192 -np 4 --metrics --props --slot-save-path /saved".split(
    " ",
  ),
  vllm: (
    "serve /models/smollm2 --served-model-name smollm2 --block-size 32 --max-model-len 2048 " +
    "--enable-prompt-tokens-details --enable-auto-tool-choice --tool-call-parser hermes"
  ).split(" "),
  sglang: (
    "--model-path /models/smollm2 --served-model-name smollm2 --page-size 16 --context-length 2048 --grammar-backend none " +
    "--enable-metrics --enable-cache-report"
  ).split(" "),
};

async function simulated(kind: ComparedKind): Promise<string> {
  const port = await freePort();
  const launcher = { llama_cpp: "sim-llama.mjs", vllm: "sim-vllm.mjs", sglang: "sim-sglang.mjs" }[kind];
  const argv = [...ARGV[kind], "--port", String(port), "--sim-profile", "instant"];
  return serve(process.execPath, [join(LAUNCHERS, launcher), ...argv], port);
}

/** Start a server, and wait until it is healthy. */
async function serve(program: string, argv: readonly string[], port: number): Promise<string> {
  const child = spawn(program, argv, { stdio: "ignore" });
  ends.push(() => child.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  const healthy = async (): Promise<boolean> => (await fetch(`${url}/health`).catch(() => undefined))?.status === 200;
  await until(`${url} healthy`, 30_000, healthy);
  return url;
}

/** Differences that nothing explains. */
async function unexplained(kind: ComparedKind, real: readonly Recorded[]): Promise<readonly string[]> {
  const names = new Set(real.map(({ name }) => name));
  const answers = await record(
    await simulated(kind),
    CASES.filter(({ name }) => names.has(name)),
  );
  return compare(real, answers)
    .filter((difference) => whyKnown(kind, difference) === undefined)
    .map(({ name, what, real: a, simulated: b }) => `${name} (${what})\n  ${a}\n  ${b}`);
}

const recorded = (kind: string): readonly Recorded[] =>
  readRecorded(new URL(`../../src/sim/testdata/${kind}/answers.jsonl.gz`, import.meta.url));

/** Quick for a real engine on a busy machine: all that are refused, and of the rest those that differ in form. */
const SHORT = CASES.filter(
  ({ name }) =>
    /^(GET|HEAD|tokenize|detokenize|apply|slot|native: (plain|streamed|n_probs$|no prompt|two))/.test(name) ||
    /^(messages|responses): (plain|streamed|no )/.test(name) ||
    /^chat: (plain|streamed|n 2|logprobs|stop text|progress|no messages|messages|content|max_tokens|n 0|tools a|an unknown)/.test(
      name,
    ),
);

describe("an outside client can't tell a simulated engine from", () => {
  it("the recorded llama-server", { timeout: 60_000 }, async () => {
    const real = recorded("llama");
    expect(real.length).toBeGreaterThan(280);
    expect(await unexplained("llama_cpp", real)).toEqual([]);
  });

  it("the recorded vLLM", { timeout: 60_000 }, async () => {
    const real = recorded("vllm");
    expect(real.length).toBeGreaterThan(280);
    expect(await unexplained("vllm", real)).toEqual([]);
  });

  it("the recorded SGLang", { timeout: 60_000 }, async () => {
    const real = recorded("sglang");
    expect(real.length).toBeGreaterThan(250);
    expect(await unexplained("sglang", real)).toEqual([]);
  });

  it.skipIf(!HERE)("a llama-server that runs beside it", { timeout: 120_000 }, async () => {
    const engine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
    const port = await freePort();
    const model = ["--model", engine.gguf, "--alias", "smollm2", "--port", String(port)];
    const flags = ["-c", "8192", "-np", "4", "-t", "1", "--metrics", "--props", "--slot-save-path", "/tmp/"];
    const url = await serve(engine.python, [join(LAUNCHERS, "xllamacpp_server.py"), ...model, ...flags], port);
    expect(await unexplained("llama_cpp", await record(url, SHORT))).toEqual([]);
  });
});
