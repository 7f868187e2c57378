import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SIDE_PORTS } from "../engines/engine.ts";
import { sideBases } from "./engine-slots.ts";
import { type LoadOptions, loadConfig, loadSettings } from "./load.ts";
import { announceEngine, planEngine } from "./plan.ts";
import { formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";
import type { EngineSettings } from "./settings.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-engines-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function options(toml: string, over: Partial<LoadOptions> = {}): LoadOptions {
  writeFileSync(join(dir, "c.toml"), toml);
  return { path: "c.toml", cwd: dir, env: {}, host: SAMPLE_HOST, ...over };
}

const engines = (toml: string, over: Partial<LoadOptions> = {}): readonly EngineSettings[] =>
  loadSettings(options(toml, over)).engines;
const problems = (toml: string, over: Partial<LoadOptions> = {}): string[] =>
  loadConfig(options(toml, over)).problems.map(formatProblem);
const urls = (toml: string, over: Partial<LoadOptions> = {}): string[] =>
  engines(toml, over).map((engine) => engine.url);

const MODELS = "[models.a]\ntp = 2\n[models.b]\n";

describe("engines of loadSettings()", () => {
  it("loadSettings() takes one [engine] with its model", () => {
    const [engine] = engines('[engine]\nkind = "vllm"\nkv_offload = "lmcache"\n[models."Qwen/Qwen3-8B"]\ntp = 4\n');
    expect(engine).toMatchObject({
      nodeId: "node1",
      kind: "vllm",
      url: "http://127.0.0.1:8000",
      kvOffload: "lmcache",
      role: "both",
      spawn: true,
      model: { name: "Qwen/Qwen3-8B", tp: 4 },
    });
    expect(engine?.slot).toMatchObject({
      host: "127.0.0.1",
      port: 8000,
      peerAddress: "127.0.0.1",
      platform: "unknown",
    });
  });

  it("loadSettings() gives each model an engine when there are several, or the one of --model", () => {
    const toml = `[agent]\ngpu_index = 1\n[engine]\nurl = "http://127.0.0.1:8100"\n${MODELS}`;
    expect(engines(toml).map((e) => [e.nodeId, e.model.name, e.url, e.slot.gpus])).toEqual([
      ["node1", "a", "http://127.0.0.1:8100", [1, 2]],
      ["node1-1", "b", "http://127.0.0.1:8101", [3]],
    ]);
    expect(engines(toml, { pick: { model: "b" } }).map((e) => [e.model.name, e.url])).toEqual([
      ["b", "http://127.0.0.1:8100"],
    ]);
    expect(problems(toml, { pick: { model: "c" } })).toEqual([
      '--model: error: no engine of this configuration loads "c". Use one of "a", "b"',
    ]);
  });

  it("loadSettings() takes --model by name where no [models] are written, and --kind without an [engine]", () => {
    const pick = { model: "org/m", kind: "sglang", kvOffload: "hicache" };
    expect(engines("[cluster]\n", { pick })[0]).toMatchObject({
      kind: "sglang",
      kvOffload: "hicache",
      model: { name: "org/m" },
    });
    expect(problems("[cluster]\n", { pick: { kind: "vlm" } })).toEqual([
      '--kind: error: engine.kind: "vlm" is not known here. Use one of "vllm", "sglang", "llama_cpp", "mlx", "openai_compat"; did you mean "vllm"?',
    ]);
  });

  it("loadSettings() lets entries of [[engines]] have [engine] in common, but not its place", () => {
    const toml = `[engine]
kind = "sglang"
url = "http://127.0.0.1:9000"
[engine.sglang]
mem_fraction_static = 0.5
[[engines]]
model = "a"
[[engines]]
model = "b"
node_id = "n2"
group = "g"
ttl = "10m"
preload = false
[engines.sglang]
mem_fraction_static = 0.4
${MODELS}`;
    expect(
      engines(toml).map((e) => [
        e.nodeId,
        e.kind,
        e.url,
        (e.options as { mem_fraction_static: number }).mem_fraction_static,
      ]),
    ).toEqual([
      ["node1", "sglang", "http://127.0.0.1:8000", 0.5],
      ["n2", "sglang", "http://127.0.0.1:8001", 0.4],
    ]);
    expect(engines(toml)[1]).toMatchObject({ group: "g", ttlMs: 600_000, preload: false });
  });

  it("loadSettings() tells a mistake in what entries have in common once, at its own place", () => {
    const toml = `[engine]\nkind = "sglang"\n[engine.sglang]\nmem_fraction_static = 2\n[[engines]]\nmodel = "a"\n[[engines]]\nmodel = "b"\n${MODELS}`;
    expect(problems(toml)).toEqual([
      "c.toml:4:23: error: engine.sglang.mem_fraction_static: 2 is out of range. Write a number below 1",
    ]);
  });

  it("loadSettings() gives unstated ports what no engine and no listener has", () => {
    const toml = `[router]\nlisten_http = ":8001"\n[[engines]]\nmodel = "a"\n[[engines]]\nmodel = "b"\n[[engines]]\nmodel = "b"\nport = 8002\n${MODELS}`;
    expect(urls(toml)).toEqual(["http://127.0.0.1:8000", "http://127.0.0.1:8003", "http://127.0.0.1:8002"]);
  });

  it("loadSettings() takes the port from extra_args when nothing else states one", () => {
    expect(urls(`[engine]\n[engine.vllm]\nextra_args = ["--port", "9001"]\n[models.a]\n`)).toEqual([
      "http://127.0.0.1:9001",
    ]);
    expect(urls(`[engine]\n[models.a]\nextra_args = ["--port=9002"]\n`)).toEqual(["http://127.0.0.1:9002"]);
    expect(urls(`[engine]\nkind = "mlx"\n[models.a]\n`)).toEqual(["http://127.0.0.1:8090"]);
    expect(urls(`[engine]\nkind = "mlx"\n[engine.mlx_lm]\nport = 8095\n[models.a]\n`)).toEqual([
      "http://127.0.0.1:8095",
    ]);
  });

  it("loadSettings() binds where the section says and asks where clients reach it", () => {
    const [engine] = engines(`[engine]\nkind = "sglang"\n[engine.sglang]\nhost = "0.0.0.0"\n[models.a]\n`);
    expect([engine?.slot.host, engine?.url]).toEqual(["0.0.0.0", "http://127.0.0.1:8000"]);
    expect(
      problems(
        `[engine]\nkind = "sglang"\nurl = "http://10.0.0.7:8000"\n[engine.sglang]\nhost = "127.0.0.1"\n[models.a]\n`,
      ),
    ).toEqual([
      "c.toml:5:8: error: engine.sglang.host: the engine would listen on 127.0.0.1 and be asked on 10.0.0.7 (engine.url (line 3)). Write the same host in both, or 0.0.0.0 here",
    ]);
  });

  it("loadSettings() adopts what somebody else runs, without a model if none is named", () => {
    const toml =
      '[[engines]]\nkind = "openai_compat"\nurl = "https://api.example.com/v1"\n[[engines]]\nspawn = false\nurl = "http://10.0.0.9:8000"\nkv_events = "tcp://10.0.0.9:5557"\n';
    const [remote, adopted] = engines(toml);
    expect(remote).toMatchObject({ url: "https://api.example.com:443", spawn: false, model: { name: "" } });
    expect(planEngine(remote!)).toMatchObject({ argv: [], url: "https://api.example.com:443", sidecars: [] });
    expect(announceEngine(adopted!).kv).toEqual({
      type: "events",
      endpoint: "tcp://10.0.0.9:5557",
      topic: "",
      dpRank: 0,
      origin: "configuration",
    });
    expect(problems('[engine]\nkind = "openai_compat"\nurl = "http://h:1"\nspawn = true\n')[0]).toContain(
      "cgn cannot start it",
    );
  });

  it("loadSettings() refuses https for an engine that it starts", () => {
    expect(problems('[engine]\nurl = "https://h:8000"\n[models.a]\n')).toEqual([
      'c.toml:2:7: error: engine.url: "https://h:8000" is https, and an engine that cgn starts speaks http. Write "http://h:8000", or spawn = false for one that somebody else runs behind TLS',
    ]);
  });

  it("loadSettings() tells a decode engine the bootstrap port of its group's prefill", () => {
    const entry = (role: string, group: string) => `[[engines]]\nrole = "${role}"\ngroup = "${group}"\nmodel = "a"\n`;
    const toml = `[engine]\nkind = "sglang"\nkv_offload = "nixl"\n${entry("prefill", "x")}${entry("prefill", "y")}${entry("decode", "y")}[models.a]\n`;
    const [x, y, decode] = engines(toml);
    const port = (engine: EngineSettings | undefined) =>
      planEngine(engine!).ports.find((p) => p.name === "bootstrap")?.port;
    expect(decode?.slot.prefillBootstrapPort).toBe(port(y));
    expect(port(x)).not.toBe(port(y));
    const written = engines(toml.replace('"decode"', '"decode"\nprefill_bootstrap_port = 9998'))[2];
    expect(written?.slot.prefillBootstrapPort).toBe(9998);
  });

  it("loadSettings() dials peers on a written address, on loopback in one process, else on the host's", () => {
    const peer = (toml: string) => engines(`${toml}\n[engine]\n[models.a]\n`)[0]?.slot.peerAddress;
    expect(peer("[agent]")).toBe("127.0.0.1");
    expect(peer('[cluster]\netcd = ["http://a:1"]')).toBe("10.0.0.5");
    expect(peer('[agent]\nlisten = "192.168.7.1:7070"')).toBe("192.168.7.1");
    expect(peer('[agent]\npeer_address = "gpu1"')).toBe("gpu1");
    expect(peer('[agent]\npeer_address = "[fd00::5]"')).toBe("fd00::5");
  });

  it("loadSettings() looks at the host's platform only when asked", () => {
    const platform = (line: string) => engines(`[agent]\n${line}\n[engine]\n[models.a]\n`)[0]?.slot.platform;
    expect([platform(""), platform('platform = "auto"'), platform('platform = "cpu"')]).toEqual([
      "unknown",
      "cuda",
      "cpu",
    ]);
  });

  it("loadSettings() checks GPUs against tp, and refuses shared ones", () => {
    expect(problems(`[engine]\nmodel = "a"\ngpus = [0]\n${MODELS}`)).toEqual([
      'c.toml:3:8: error: engine.gpus: lists 1 GPUs, and model "a" has tp = 2. List 2 GPUs, or lower tp',
    ]);
    const twice = (model: string, more = "") =>
      problems(
        `[[engines]]\nmodel = "b"\ngpus = [0]\n${more}[[engines]]\nmodel = "${model}"\ngpus = [0]\n${more}[models.b]\n[models.c]\n`,
      );
    expect(twice("b")[0]).toMatch(
      /^c\.toml:6:8: error: engines\[1\]\.gpus: GPU 0 is already a GPU of "b", by .*\(line 3\)\./,
    );
    expect(twice("b", "share_gpus = true\n")).toEqual([]);
    expect(twice("c", "share_gpus = true\n")).toEqual([]);
    expect(twice("c")[0]).toMatch(/^c\.toml:6:8: error: engines\[1\]\.gpus: GPU 0 is already a GPU of "b"/);
    // Different models may take turns.
    expect(twice("c", 'ttl = "5m"\n')).toEqual([]);
  });

  it("loadSettings() places what an engine's own launch finds wrong", () => {
    const [said] = problems(
      `[engine]\nkv_offload = "lmcache"\n[engine.vllm.lmcache]\nmode = "mp"\nchunk_size = 100\n[models.a]\n`,
    );
    expect(said).toMatch(/^c\.toml:5:14: error: engine\.vllm\.lmcache\.chunk_size: /);
  });

  it("loadSettings() refuses two engines whose written side ports meet", () => {
    const toml = `[engine]\nkv_offload = "lmcache"\n[engine.vllm.lmcache]\nmode = "mp"\nport = 6555\n[[engines]]\nmodel = "a"\n[[engines]]\nmodel = "b"\n${MODELS}`;
    expect(problems(toml)).toEqual([
      "c.toml:8:3: error: engines[1]: port 6555 (lmcache) is already a port of engines[0] (line 6) (lmcache). Write another port in the engine's section or its extra_args, or leave it out",
    ]);
  });
});

describe("sideBases()", () => {
  it("sideBases() gives blocks that are apart, free of taken ports, and the same each time", () => {
    const port = fc.integer({ min: 1, max: 65_535 });
    fc.assert(
      fc.property(fc.array(port, { maxLength: 40 }), fc.array(port, { maxLength: 40 }), (ports, taken) => {
        const engines = ports.map((each) => ({ port: each }));
        const bases = sideBases(engines, 20_000, taken);
        expect(sideBases(engines, 20_000, taken)).toEqual(bases);
        expect(new Set(bases).size).toBe(bases.length);
        for (const base of bases) {
          expect((base - 20_000) % SIDE_PORTS).toBe(0);
          expect(base).toBeLessThanOrEqual(20_000 + 198 * SIDE_PORTS);
          expect(taken.some((each) => each >= base && each < base + SIDE_PORTS)).toBe(false);
        }
      }),
    );
  });

  it("sideBases() leaves running engines their blocks, whoever is new beside them", () => {
    const port = fc.integer({ min: 1, max: 65_535 });
    fc.assert(
      fc.property(fc.uniqueArray(port, { minLength: 1, maxLength: 60 }), fc.nat(60), (ports, count) => {
        const old = ports.slice(0, count).map((each) => ({ port: each }));
        // No port of an engine lies among the side ports: else its block has to move.
        const before = sideBases(old, 100_000, []);
        const running = new Map(old.map((each, n) => [each.port, before[n]!]));
        const all = ports.map((each) => ({ port: each })).reverse();
        const after = sideBases(all, 100_000, [], running);
        expect(new Set(after).size).toBe(all.length);
        for (const [n, each] of all.entries()) {
          if (running.has(each.port)) expect(after[n]).toBe(running.get(each.port));
        }
      }),
    );
  });

  it("sideBases() starts at the HTTP port mod 199", () => {
    expect(sideBases([{ port: 8001 }, { port: 8001 + 199 }], 20_000, [])).toEqual([20_000 + 64 * 41, 20_000 + 64 * 42]);
  });
});
