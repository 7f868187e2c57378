import { describe, expect, it } from "vitest";
import type { Role } from "../../core/engine-kind.ts";
import { isCgnError } from "../../core/errors.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import type { LaunchInput } from "../engine.ts";
import { runLaunchCases, SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "../launch.case.ts";
import { runProbeCases } from "../probe.case.ts";
import { sglang } from "./sglang.ts";
import { type SglangOptions, sglangSchema } from "./sglang-options.ts";
import models from "./testdata/get_models.json" with { type: "json" };
import metrics from "./testdata/metrics.json" with { type: "json" };
import answers from "./testdata/parser_answers.json" with { type: "json" };
import serverInfo from "./testdata/server_info.json" with { type: "json" };

const DEFAULTS = sglangSchema.parse({});

runLaunchCases(sglang, DEFAULTS);
runProbeCases("sglang", sglang.probe, {
  ready: { status: 200, body: "" },
  metrics: metrics.text,
  models: JSON.stringify(models.response.body),
});

function launch(options: object, over: Partial<LaunchInput<SglangOptions>> = {}): LaunchPlan {
  return sglang.launch(sampleInput(sglangSchema.parse(options), over));
}

function problemsOf(
  options: object,
  over: Partial<LaunchInput<SglangOptions>> = {},
): { path: string; problem: string }[] {
  try {
    launch(options, over);
    return [];
  } catch (e) {
    if (isCgnError(e, "CONFIG_INVALID")) return [...e.details.problems];
    throw e;
  }
}

/** The words that the dial added: those that the plain launch does not have. */
function dialWords(plan: LaunchPlan): string {
  const at = plan.argv.findIndex((w) => w.startsWith("--enable-hierarchical") || w.startsWith("--disaggregation"));
  return at < 0 ? "" : plan.argv.slice(at).join(" ");
}

describe("launchSglang()", () => {
  it("renders the plain worker, one argument after the other", () => {
    expect(launch({}).argv.join("\n")).toBe(
      [
        "python3\n-m\nsglang.launch_server",
        "--model-path\norg/model",
        "--served-model-name\norg/model",
        "--tp-size\n2",
        "--host\n127.0.0.1",
        "--port\n8000",
        "--context-length\n8192",
        "--mem-fraction-static\n0.85",
        "--page-size\n16",
        "--enable-metrics",
        "--enable-cache-report",
        '--kv-events-config\n{"publisher":"zmq","endpoint":"tcp://*:20000","replay_endpoint":"tcp://*:20036","topic":"kv@10.0.0.5:8000@org/model"}',
      ].join("\n"),
    );
  });

  for (const [offload, role, options, words] of [
    ["none", "both", {}, ""],
    [
      "none",
      "prefill",
      {},
      "--disaggregation-mode prefill --disaggregation-transfer-backend mooncake --disaggregation-bootstrap-port 20016",
    ],
    [
      "none",
      "decode",
      {},
      "--disaggregation-mode decode --disaggregation-transfer-backend mooncake --disaggregation-bootstrap-port 21016",
    ],
    ["nixl", "both", {}, ""],
    [
      "nixl",
      "both",
      { storage: "nixl" },
      "--enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through --hicache-storage-backend nixl",
    ],
    [
      "nixl",
      "prefill",
      {},
      "--disaggregation-mode prefill --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 20016",
    ],
    [
      "nixl",
      "decode",
      {},
      "--disaggregation-mode decode --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 21016",
    ],
    ["hicache", "both", {}, "--enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through"],
    [
      "hicache",
      "both",
      { size_gib: 64, io_backend: "direct", mem_layout: "layer_first", storage: "file" },
      "--enable-hierarchical-cache --hicache-size 64 --hicache-io-backend direct --hicache-mem-layout layer_first --hicache-write-policy write_through --hicache-storage-backend file",
    ],
    [
      "hicache",
      "prefill",
      {},
      "--enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through --disaggregation-mode prefill --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 20016",
    ],
    [
      "hicache",
      "decode",
      {},
      "--disaggregation-mode decode --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 21016",
    ],
    [
      "hicache",
      "decode",
      { storage: "mooncake" },
      "--disaggregation-decode-enable-offload-kvcache --hicache-storage-backend mooncake --hicache-ratio 2 --disaggregation-mode decode --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 21016",
    ],
    [
      "hicache",
      "decode",
      { decode_radix: true },
      "--enable-hierarchical-cache --hicache-ratio 2 --hicache-write-policy write_through --disaggregation-decode-enable-radix-cache --disaggregation-mode decode --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 21016",
    ],
    [
      "hicache",
      "decode",
      { decode_radix: true, storage: "file" },
      "--disaggregation-decode-enable-offload-kvcache --hicache-storage-backend file --hicache-ratio 2 --disaggregation-decode-enable-radix-cache --disaggregation-mode decode --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 21016",
    ],
  ] as const satisfies readonly (readonly [KvOffload, Role, object, string])[]) {
    it(`renders ${offload}/${role} ${JSON.stringify(options)} as SGLang's parser takes it`, () => {
      const plan = launch(Object.keys(options).length === 0 ? {} : { hicache: options }, { offload, role });
      expect(dialWords(plan)).toBe(words);
      expect(acceptedTwin(plan), `no accepted argument list is like ${words}`).toBeDefined();
    });
  }

  it("refuses lmcache and kvbm for every role, with what SGLang accepts", () => {
    for (const offload of ["lmcache", "kvbm"] as const)
      for (const role of ["both", "prefill", "decode"] as const) {
        expect(sglang.cell(offload, role)).toMatchObject({
          supported: false,
          reason: expect.stringMatching(/SGLang accepts none, nixl and hicache/),
        });
      }
  });

  it("says when the dial does nothing, or the table does not count", () => {
    const codes = (options: object, over: Partial<LaunchInput<SglangOptions>>): string[] =>
      launch(options, over).warnings.map((w) => w.code);
    expect(codes({}, { offload: "nixl" })).toEqual(["nixl-without-peer"]);
    expect(codes({}, { offload: "hicache", role: "decode" })).toEqual(["hicache-idle-on-decode"]);
    expect(codes({ hicache: {} }, { offload: "none" })).toEqual(["hicache-unused"]);
    expect(codes({ hicache: { io_backend: "direct" } }, { offload: "hicache" })).toEqual(["hicache-rewritten"]);
    expect(codes({}, { offload: "nixl", role: "prefill" })).toEqual(["bootstrap-on-loopback"]);
    expect(codes({}, { offload: "hicache" })).toEqual([]);
  });

  it("falls back to SGLang's bootstrap port where no prefill worker is known", () => {
    const { prefillBootstrapPort: _, ...slot } = SAMPLE_SLOT;
    const plan = launch({}, { offload: "nixl", role: "decode", slot });
    expect(plan.argv.join(" ")).toContain("--disaggregation-bootstrap-port 8998");
    expect(plan.warnings.map((w) => w.code)).toEqual(["bootstrap-port-unknown"]);
  });

  it("takes the page size from [kv], from extra_args, and announces what holds", () => {
    const announced = (options: object, blockTokens?: number): number | undefined =>
      sglang.announce(sampleInput(sglangSchema.parse(options), blockTokens === undefined ? {} : { blockTokens }))
        .blockTokens;
    expect(announced({})).toBe(16);
    expect(announced({}, 64)).toBe(64);
    expect(announced({ extra_args: ["--page-size", "32"] }, 64)).toBe(32);
  });

  it("leaves out what the user wrote in any spelling", () => {
    const { argv } = launch({ extra_args: ["--tensor-parallel-size=2", "--mem-fraction", "0.7"] });
    expect(argv).not.toContain("--tp-size");
    expect(argv).not.toContain("--mem-fraction-static");
  });

  it("follows a --kv-events-config of the user's own, and one that turns events off", () => {
    const kv = (config: object) =>
      sglang.announce(sampleInput(sglangSchema.parse({ extra_args: ["--kv-events-config", JSON.stringify(config)] })))
        .kv;
    expect(kv({ publisher: "zmq", endpoint: "tcp://*:7001", topic: "t" })).toEqual({
      type: "events",
      endpoint: "tcp://127.0.0.1:7001",
      topic: "t",
      dpRank: 0,
      origin: "agent",
    });
    const { ranks } = sglang.announce(sampleInput(sglangSchema.parse({ extra_args: ["--dp-size", "3"] })));
    expect(ranks?.map((rank) => rank.type === "events" && [rank.dpRank, rank.endpoint, rank.replay])).toEqual([
      [1, "tcp://127.0.0.1:20001", "tcp://127.0.0.1:20037"],
      [2, "tcp://127.0.0.1:20002", "tcp://127.0.0.1:20038"],
    ]);
    expect(kv({ publisher: "null" }).type).toBe("history");
    expect(launch({ extra_args: ["--kv-events-config", '{"publisher":"null"}'] }).ports).toEqual([
      { name: "http", port: 8000 },
    ]);
  });

  it("opens a bootstrap port on prefill, and none on decode, which dials the prefill worker's", () => {
    const names = (role: Role): string[] =>
      launch({}, { offload: "nixl", role }).ports.map((p) => `${p.name} ${p.port}`);
    expect(names("prefill")).toEqual(["http 8000", "kv-events 20000", "kv-replay 20036", "bootstrap 20016"]);
    expect(names("decode")).toEqual(["http 8000", "kv-events 20000", "kv-replay 20036"]);
  });

  it("counts event ports by data-parallel ranks", () => {
    const { ports } = launch({ extra_args: ["--dp-size", "4"] });
    expect(ports.find((p) => p.name === "kv-events")).toEqual({ name: "kv-events", port: 20_000, count: 4 });
  });

  it("gathers all problems, each with its key", () => {
    const found = problemsOf(
      { extra_args: ["--port", "9", "--max-model-len", "8"], hicache: { storage: "dynamic" } },
      { offload: "hicache", blockTokens: 7, model: { ...SAMPLE_MODEL, name: "a:b" } },
    );
    expect(found.map((p) => p.path).sort()).toEqual([
      "engine.sglang.extra_args",
      "engine.sglang.extra_args",
      "engine.sglang.hicache.storage",
      "kv.block_size_tokens",
      "models",
    ]);
  });
});

/** An argument list that the real parser accepted, with the same words of the dial (ports apart; defaults may be spelled out there). */
function acceptedTwin(plan: LaunchPlan): string | undefined {
  const ours = dialFlags(plan.argv);
  const optional = ["--hicache-io-backend", "--hicache-mem-layout", "--hicache-ratio"];
  const twin = answers.find(({ argv, accepted }) => {
    const theirs = dialFlags(argv);
    const covers = [...ours].every(
      ([flag, value]) => theirs.get(flag) === value || VALUES_TRIED.has(`${flag} ${value}`),
    );
    const flags = [...theirs.keys()].every((flag) => ours.has(flag) || optional.includes(flag));
    return (
      accepted &&
      covers &&
      flags &&
      [...ours.keys()].every(
        (f) => theirs.has(f) || optional.includes(f) || f === "--hicache-size" || f === "--hicache-write-policy",
      )
    );
  });
  return twin?.name;
}

/** Every flag with a value that stands in some accepted list. */
const VALUES_TRIED = new Set(
  answers
    .filter((a) => a.accepted)
    .flatMap(({ argv }) => [...dialFlags(argv)].map(([flag, value]) => `${flag} ${value}`)),
);

function dialFlags(argv: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  argv.forEach((word, i) => {
    if (!/^--(disaggregation|hicache|enable-hierarchical)/.test(word) || word === "--disaggregation-bootstrap-port")
      return;
    const next = argv[i + 1];
    found.set(
      word,
      next === undefined || next.startsWith("--") ? "" : next === "64" && word === "--hicache-size" ? "8" : next,
    );
  });
  return found;
}

describe("sglangProbe", () => {
  const body = JSON.stringify(serverInfo);
  it("reads version, block size and sources from /server_info", () => {
    expect(sglang.probe.version?.parse(body)).toBe("0.5.23");
    expect(sglang.probe.blockTokens?.parse(body)).toBe(16);
    expect(sglang.probe.kvSources?.parse(body, "10.1.1.1")).toEqual([
      { type: "events", endpoint: "tcp://127.0.0.1:28357", replay: "tcp://127.0.0.1:28358", topic: "", dpRank: 0 },
    ]);
  });
  it("puts the worker's host for a wildcard, and the next port for the next rank", () => {
    const wild = JSON.stringify({ kv_events: { ...serverInfo.kv_events, endpoint_host: "*", dp_size: 2 } });
    const sources = sglang.probe.kvSources?.parse(wild, "fd00::7") ?? [];
    expect(sources.map((s) => s.type === "events" && s.endpoint)).toEqual([
      "tcp://[fd00::7]:28357",
      "tcp://[fd00::7]:28358",
    ]);
  });
  it("reads no source when events are off", () => {
    expect(sglang.probe.kvSources?.parse('{"kv_events":{"publisher":"null"}}', "h")).toEqual([]);
    expect(sglang.probe.kvSources?.parse('{"kv_events":null}', "h")).toEqual([]);
  });
  it("reads the model with its context limit", () => {
    expect(sglang.probe.models?.parse(JSON.stringify(models.response.body))).toEqual([
      { id: "smollm2", maxModelTokens: 8192 },
    ]);
  });
  it("reads load from the real gauges", () => {
    expect(sglang.probe.metrics?.parse(metrics.text)).toEqual({ running: 0, waiting: 0, kvUsage: 0, progress: 170 });
  });
});
