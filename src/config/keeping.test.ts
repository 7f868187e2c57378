import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nvidiaGpus, readHostFacts, visibleGpus } from "./host.ts";
import { type LoadOptions, loadConfig } from "./load.ts";
import { planEngine } from "./plan.ts";
import { formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";
import type { Settings } from "./settings.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-keeping-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const HOST = { ...SAMPLE_HOST, gpus: [0, 1, 2, 3] };

function load(toml: string, over: Partial<LoadOptions> = {}): { readonly settings: Settings; readonly said: string[] } {
  writeFileSync(join(dir, "c.toml"), toml);
  const { settings, problems } = loadConfig({ path: "c.toml", cwd: dir, env: {}, host: HOST, ...over });
  return { settings, said: problems.map(formatProblem) };
}

const gpus = (toml: string, over: Partial<LoadOptions> = {}) =>
  load(toml, over).settings.engines.map(({ slot }) => slot.gpus?.join(",") ?? "-");

const MODELS = "[models.a]\ntp = 2\n[models.b]\n[models.c]\n";
const entries = (...bodies: string[]) => bodies.map((body) => `[[engines]]\n${body}\n`).join("") + MODELS;

describe("GPU sets", () => {
  it("are the host's free ones, in the file's order, beside those that were written", () => {
    expect(gpus(entries('model = "a"', 'model = "b"\ngpus = [1]', 'model = "c"'))).toEqual(["0,2", "1", "3"]);
  });

  it("are left alone for a single engine, on a host without GPUs, and for engines that compute on none", () => {
    expect(gpus(`[engine]\nmodel = "a"\n${MODELS}`)).toEqual(["-"]);
    expect(gpus(entries('model = "a"', 'model = "b"'), { host: SAMPLE_HOST })).toEqual(["-", "-"]);
    expect(gpus(`[agent]\nplatform = "cpu"\n${entries('model = "a"', 'model = "b"')}`)).toEqual(["-", "-"]);
    expect(gpus(entries('model = "b"', 'model = "c"\nspawn = false\nurl = "http://127.0.0.1:9"'))).toEqual(["-", "-"]);
  });

  it("are shared by those that take turns, apart from those that stay", () => {
    const toml = entries('model = "a"\nttl = "5m"', 'model = "b"', 'model = "c"\nttl = "5m"');
    expect(gpus(toml)).toEqual(["1,2", "0", "1"]);
    expect(load(toml).said).toEqual([]);
  });

  it("that do not suffice are told at the engine's place", () => {
    const { said } = load(entries('model = "a"', 'model = "a"\nnode_id = "x"', 'model = "b"'));
    expect(said).toEqual([
      expect.stringMatching(
        /^c\.toml:\d+:\d+: error: engines\[2\]\.gpus: .* computes on a GPU, and 0 of this host's 4/,
      ),
    ]);
  });

  // Simulated engines took GPUs that they do not use, and others were refused for want of them.
  it("are given to no simulated engine", () => {
    const sim = (model: string) => `model = "${model}"\n[engines.vllm]\nbinary = "${HOST.launcherDir}/sim-vllm.mjs"`;
    const toml = entries(sim("a"), sim("a"), 'model = "a"').replace("tp = 2", "tp = 4");
    expect(gpus(toml)).toEqual(["-", "-", "0,1,2,3"]);
    expect(load(toml).said).toEqual([]);
  });

  it("nvidiaGpus() counts NVIDIA's devices, and visibleGpus() those that the variable left", () => {
    for (const name of ["nvidia0", "nvidia1", "nvidia10", "nvidiactl", "null"]) mkdirSync(join(dir, name));
    const all = nvidiaGpus({}, dir);
    expect(all).toEqual([0, 1, 10]);
    expect(visibleGpus(all, undefined)).toEqual([0, 1, 10]);
    expect(visibleGpus(all, "1,7,10")).toEqual([1, 10]);
    for (const none of ["", "-1", "GPU-1c3f", "MIG-1"]) expect(visibleGpus(all, none)).toEqual([]);
  });

  // Where there are no device files (WSL), one report counted nvidia-smi's GPUs and called the platform "cpu".
  it("readHostFacts() takes the GPUs that nvidia-smi lists for the platform too", () => {
    const smi = join(dir, "nvidia-smi");
    writeFileSync(smi, "#!/bin/sh\necho '0, NVIDIA A, 81559, 4'\necho '1, NVIDIA A, 81559, 4'\n", { mode: 0o755 });
    expect(nvidiaGpus({ PATH: `${dir}:/bin:/usr/bin` }, join(dir, "none"))).toEqual([0, 1]);
    expect(nvidiaGpus({ PATH: "/none" }, join(dir, "none"))).toEqual([]);
    expect(readHostFacts({ PATH: `${dir}:/bin:/usr/bin` }).platform).toBe("cuda");
  });
});

describe("start_after", () => {
  it("names engines by model or node, and is told where it names none", () => {
    const toml = entries(
      'model = "a"\nnode_id = "n1"',
      'model = "b"\nstart_after = ["a"]',
      'model = "c"\nstart_after = "n1, b"',
    );
    const { settings, said } = load(toml);
    const [a, b] = settings.engines.map(({ url }) => url);
    expect([said, settings.engines.map(({ startAfter }) => startAfter)]).toEqual([[], [[], [a], [a, b]]]);
    expect(load(entries('model = "a"', 'model = "b"\nstart_after = ["aa"]')).said).toEqual([
      'c.toml:5:15: error: engines[1].start_after[0]: no other engine of this file is called "aa". Did you mean "a"?',
    ]);
  });

  it("may not lead in a circle", () => {
    const circle = entries(
      'model = "a"\nstart_after = ["c"]',
      'model = "b"\nstart_after = ["a"]',
      'model = "c"\nstart_after = ["b"]',
    );
    expect(load(circle).said).toEqual([
      expect.stringMatching(/^c\.toml:3:15: error: engines\[0\]\.start_after: .*itself/),
    ]);
  });
});

describe("env", () => {
  it("wins over what is rendered, which is said, and may name a secret", () => {
    const toml =
      '[engine]\ngpus = [0, 1]\n[engine.env]\nHF_HOME = "/m"\nCUDA_VISIBLE_DEVICES = "7"\nHF_TOKEN = { secret_from = "file:/s" }\n[models.a]\ntp = 2\n';
    const { settings, said } = load(toml);
    expect(said).toEqual([]);
    const { env, warnings } = planEngine(settings.engines[0]!);
    expect(env).toMatchObject({ HF_HOME: "/m", CUDA_VISIBLE_DEVICES: "7", HF_TOKEN: { secretFrom: "file:/s" } });
    expect(warnings.map(({ code, message }) => `${code}: ${message}`)).toContain(
      "env-replaced: env.CUDA_VISIBLE_DEVICES replaces what cgn renders (CUDA_VISIBLE_DEVICES=0,1)",
    );
  });
});
