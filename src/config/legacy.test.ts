import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { readCommandTemplate } from "./legacy-command.ts";
import { loadConfig } from "./load.ts";
import { planEngine } from "./plan.ts";
import { formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

const cwd = fileURLToPath(new URL("../../test/fixtures/config/", import.meta.url));
const load = (path: string) => loadConfig({ path, cwd, env: {}, host: SAMPLE_HOST });
const warned = (path: string): string[] => {
  const { problems } = load(path);
  expect(problems.filter((p) => p.severity === "error").map(formatProblem)).toEqual([]);
  return problems.map((p) => p.path);
};

describe("loadConfig() with files of the original system", () => {
  it("loadConfig() loads a router's file unchanged, and says what it does not do", () => {
    expect(warned("router.toml")).toEqual([
      "router.listen_grpc",
      "metrics.scrape_targets",
      "metrics.ipmi_fallback",
      'models."Qwen/Qwen3-8B".prefill_replicas',
      'models."Qwen/Qwen3-8B".decode_replicas',
    ]);
    const { settings } = load("router.toml");
    expect(settings.router.cascades).toEqual({
      "Qwen/Qwen3-8B": {
        name: "Qwen/Qwen3-8B",
        models: ["Qwen/Qwen3-32B"],
        thresholds: [-1.5],
        tokens: 32,
        unjudged: "next",
      },
    });
    expect(settings.engines).toEqual([]);
    expect(settings.cluster).toMatchObject({
      stateBackend: "etcd",
      etcdEndpoints: ["http://10.0.0.2:2379", "http://10.0.0.3:2379"],
    });
    expect(settings.router.admission).toEqual({
      maxQueue: 1024,
      ttftSloMs: 800,
      maxConcurrentPerReplica: 16,
      queueTimeoutMs: 30_000,
    });
    expect(settings.router.listenAdmin).toEqual({ host: "0.0.0.0", port: 9091 });
  });

  it("loadConfig() loads an agent's file with vllm_cmd unchanged", () => {
    expect(warned("agent-vllm-cmd.toml")).toEqual(["cluster.state_backend", "cluster.gossip_seeds"]);
    const [engine] = load("agent-vllm-cmd.toml").settings.engines;
    expect(engine).toMatchObject({
      kind: "vllm",
      url: "http://127.0.0.1:8005",
      nodeId: "gpu-3",
      slot: { gpus: [2, 3] },
    });
    const { argv } = planEngine(engine!);
    expect(argv.slice(0, 5)).toEqual([
      "vllm",
      "serve",
      "meta-llama/Llama-3.1-8B-Instruct",
      "--tensor-parallel-size",
      "2",
    ]);
    expect(argv.filter((word) => word === "--port")).toHaveLength(1);
    expect(argv.filter((word) => word === "--block-size")).toHaveLength(1);
  });

  it("loadConfig() loads a kvcached's file with one warning for the block store", () => {
    expect(warned("kvcached.toml")).toEqual(["kv.ssd_dir"]);
    expect(load("kvcached.toml").problems.map(formatProblem)).toEqual([
      "kvcached.toml:9:11: warning: kv.ssd_dir: cgn stores and carries no KV bytes, the engines' connectors do; ssd_dir, ssd_gib, transport, quic_listen do nothing; " +
        "ram_gib caps the prefix index only (index_gib says the same without this warning). Set [engine].kv_offload in the agent's file, and with it " +
        "[engine.vllm.lmcache].cpu_gib, [engine.vllm.kvbm].cpu_cache_gib and disk_cache_gib, or [engine.sglang.hicache].size_gib",
    ]);
  });
});

describe("readCommandTemplate()", () => {
  it.each([
    ["vllm serve {model} --tp {tp}", ["vllm", "serve", "{model}", "--tp", "{tp}"]],
    [`vllm serve "my model" --x='{"a": 1}'`, ["vllm", "serve", "my model", '--x={"a": 1}']],
    [
      ["vllm", "a b"],
      ["vllm", "a b"],
    ],
  ])("readCommandTemplate() splits %j", (written, words) => expect(readCommandTemplate(written)).toEqual({ words }));

  it.each([
    ["a | b", "needs a shell"],
    ["A=$HOME a", "needs a shell"],
    ["a 'b", "open quote"],
    ["a {name}", "unknown placeholder {name}"],
  ])("readCommandTemplate() refuses %j", (written, said) => {
    expect(JSON.stringify(readCommandTemplate(written))).toContain(said);
  });
});
