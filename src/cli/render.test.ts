import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { CliContext, Values } from "./command.ts";
import { renderCommand } from "./render.ts";

const RECIPES = join(import.meta.dirname, "..", "..", "recipes");
const DIR = mkdtempSync(join(tmpdir(), "cgn-render-"));
afterAll(() => rmSync(DIR, { recursive: true }));

interface Ran {
  readonly out: string;
  readonly err: string;
  readonly thrown: unknown;
}

async function render(options: Values): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const cli: CliContext = {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    env: {},
    cwd: DIR,
    color: false,
    signal: new AbortController().signal,
    clock: { now: () => 0, wall: () => 0, after: () => () => {} },
  };
  let thrown: unknown;
  await renderCommand.run({ options, positionals: [] }, cli).catch((e: unknown) => (thrown = e));
  return { out: out.join("\n"), err: err.join("\n"), thrown };
}

function config(text: string): string {
  const path = join(DIR, `${expect.getState().currentTestName?.replaceAll(/\W+/g, "-") ?? "x"}.toml`);
  writeFileSync(path, text);
  return path;
}

const VLLM = '[engine]\nkind = "vllm"\nurl = "http://127.0.0.1:8001"\n[models."org/m"]\n';

describe("renderCommand", () => {
  it("renderCommand() prints one object for one engine, without reasons", async () => {
    const { out } = await render({ config: config(VLLM), format: "json" });
    const plan = JSON.parse(out) as LaunchPlan;
    expect(plan).toMatchObject({ version: 1, engine: "vllm", kvOffload: "none", role: "both", model: "org/m" });
    expect(plan.argv.slice(0, 3)).toEqual(["vllm", "serve", "org/m"]);
    expect(plan).not.toHaveProperty("reasons");
  });

  it("renderCommand() prints a list for several engines, in the file's order", async () => {
    const engine = (n: number): string => `[[engines]]\nkind = "vllm"\nmodel = "m"\nurl = "http://127.0.0.1:800${n}"\n`;
    const { out } = await render({ config: config(`[models."m"]\n${engine(2)}${engine(1)}`), format: "json" });
    expect((JSON.parse(out) as LaunchPlan[]).map((plan) => plan.url)).toEqual([
      "http://127.0.0.1:8002",
      "http://127.0.0.1:8001",
    ]);
  });

  it("renderCommand() gives reasons with --explain", async () => {
    const options = { config: config(VLLM), role: "prefill", kvOffload: "nixl", explain: true };
    const plan = JSON.parse((await render({ ...options, format: "json" })).out) as LaunchPlan;
    expect(plan.reasons.map((r) => r.arg)).toContain("--kv-transfer-config");
    expect((await render({ ...options, format: "shell" })).out).toMatch(/^# --kv-transfer-config: .*\[.*\]$/m);
  });

  it("renderCommand() refuses a cell with exit 3, as JSON too, and lists what is accepted", async () => {
    const { out, thrown } = await render({ config: config(VLLM), kvOffload: "hicache", format: "json" });
    expect(isCgnError(thrown, "OFFLOAD_REFUSED")).toBe(true);
    const { error } = JSON.parse(out) as { error: { code: string; message: string; accepted: string[] } };
    expect(error).toMatchObject({ code: "OFFLOAD_REFUSED", accepted: ["none", "nixl", "lmcache", "kvbm"] });
    expect(error.message).toContain("hicache");
  });

  it("renderCommand() refuses a file without an engine", async () => {
    const { thrown } = await render({ config: config("[router]\n"), format: "shell" });
    expect(isCgnError(thrown, "CONFIG_INVALID")).toBe(true);
  });

  it("renderCommand() quotes for a shell, and sends warnings to stderr", async () => {
    const { out, err } = await render({ config: config(VLLM), kvOffload: "kvbm", format: "shell" });
    expect(out).toMatch(/^PYTHONHASHSEED=0 \\\n {2}/m);
    expect(out).toContain(`--kv-transfer-config '{"kv_connector":"DynamoConnector"`);
    expect(err).toMatch(/^warning: .*retiring KVBM/m);
  });

  it("renderCommand() never prints a secret", async () => {
    const extra =
      '[engine.vllm]\nextra_args = ["--api-key", "k-one", "k-two", "--hf_token=k-three", "--enforce-eager"]\n';
    for (const format of ["json", "shell"]) {
      const { out } = await render({ config: config(VLLM + extra), format, explain: true });
      expect(out).not.toMatch(/k-one|k-two|k-three/);
      expect(out).toContain("--enforce-eager");
    }
  });

  // Secrets of [engine].env were printed by every format, and only those of flags hidden.
  it.each(["json", "shell", "systemd", "compose", "k8s"])(
    "renderCommand() never prints a variable that is secret by its name, as %s",
    async (format) => {
      const env =
        '[engine.env]\nHF_TOKEN = "k-one"\nMY_API_KEY = "k-two"\nDB_PASSWORD = "k-three"\n' +
        'LMCACHE_REMOTE_URL = "redis://:k-four@db:1"\nTOKENIZERS_PARALLELISM = "plain-five"\n';
      for (const kvOffload of ["none", "lmcache"]) {
        const { out, thrown } = await render({ config: config(VLLM + env), kvOffload, format, explain: true });
        expect(thrown).toBeUndefined();
        expect(out).not.toMatch(/k-one|k-two|k-three|k-four/);
        expect(out).toContain("HF_TOKEN");
        expect(out).toContain("plain-five");
      }
    },
  );

  it("renderCommand() never prints one in a difference", async () => {
    const env = '[engine.env]\nHF_TOKEN = "k-one"\n';
    const { out } = await render({ config: config(VLLM + env), diff: "kv_offload=none,lmcache", format: "shell" });
    expect(out).toContain("HF_TOKEN");
    expect(out).not.toContain("k-one");
  });
});

describe("recipes", () => {
  const files = readdirSync(RECIPES, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".toml"));

  it("recipes hold the plain, the offloading and the disaggregated ones", () => {
    for (const name of [
      "none-both",
      "nixl-both",
      "nixl-disagg",
      "lmcache-both",
      "lmcache-disagg",
      "kvbm-both",
      "kvbm-disagg",
    ]) {
      expect(files).toContain(join("qwen3-8b", "vllm", `${name}.toml`));
    }
  });

  it.each(files)("recipes/%s renders, the same each time, with ports of its own", async (name) => {
    const options = { config: join(RECIPES, name), format: "json", explain: true };
    const first = await render(options);
    expect(first.thrown).toBeUndefined();
    expect((await render(options)).out).toBe(first.out);
    const parsed = JSON.parse(first.out) as LaunchPlan | LaunchPlan[];
    const ports = (Array.isArray(parsed) ? parsed : [parsed])
      .flatMap((plan) => plan.ports.filter((port) => port.name !== "prefill-bootstrap"))
      .flatMap((port) => Array.from({ length: port.count ?? 1 }, (_, i) => port.port + i));
    expect(new Set(ports).size).toBe(ports.length);
  });
});
