import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROLES } from "../../core/engine-kind.ts";
import { type CgnError, isCgnError } from "../../core/errors.ts";
import { KV_OFFLOADS } from "../../core/kv-offload.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import type { LaunchInput } from "../engine.ts";
import { expectGolden, goldenText } from "../golden.case.ts";
import { runLaunchCases, SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "../launch.case.ts";
import { runProbeCases } from "../probe.case.ts";
import { vllm } from "./vllm.ts";
import { type VllmOptions, vllmOptions } from "./vllm-options.ts";
import { transferConfigProblems } from "./vllm-user-transfer.ts";

const TESTDATA = join(import.meta.dirname, "testdata");
const METRICS = readFileSync(join(TESTDATA, "metrics.txt"), "utf8");
const MODELS = JSON.stringify({ object: "list", data: [{ id: "smol", object: "model", max_model_len: 2048 }] });

const options = (section: object = {}): VllmOptions => vllmOptions.parse(section);
const launch = (over: Partial<LaunchInput<VllmOptions>> = {}, section: object = {}): LaunchPlan =>
  vllm.launch(sampleInput(options(section), over));
const withExtra = (...extraArgs: string[]): Partial<LaunchInput<VllmOptions>> => ({
  model: { ...SAMPLE_MODEL, extraArgs },
});

function problemsOf(run: () => unknown): string[] {
  try {
    run();
    return [];
  } catch (e) {
    if (!isCgnError(e, "CONFIG_INVALID")) throw e;
    return (e as CgnError<"CONFIG_INVALID">).details.problems.map((p) => p.problem);
  }
}

function flag(plan: LaunchPlan, name: string): string | undefined {
  const at = plan.argv.indexOf(name);
  return at < 0 ? undefined : plan.argv[at + 1];
}

const connector = (plan: LaunchPlan): unknown => JSON.parse(flag(plan, "--kv-transfer-config") ?? "null");
const codes = (plan: LaunchPlan): string[] => plan.warnings.map((w) => w.code);

runLaunchCases(vllm, options());
runLaunchCases(vllm, options({ lmcache: { mode: "mp" }, kvbm: { cpu_cache_gib: 8, disk_cache_gib: 64 } }));
runProbeCases("vllm", vllm.probe, { ready: { status: 200, body: "" }, metrics: METRICS, models: MODELS });

/** Variants of the dial that have options of their own. */
const VARIANTS: Readonly<Record<string, readonly object[]>> = {
  none: [{}],
  nixl: [{}],
  lmcache: [{}, { lmcache: { mode: "mp" } }, { lmcache: { wrapper: "pd_connector" } }],
  kvbm: [{ kvbm: { cpu_cache_gib: 20, disk_cache_gib: 100 } }],
};

const CELLS = KV_OFFLOADS.flatMap((offload) =>
  ROLES.filter((role) => vllm.cell(offload, role).supported).flatMap((role) =>
    (VARIANTS[offload] ?? []).map((section) => ({ offload, role, section })),
  ),
);

const nameOf = (section: object): string =>
  Object.values((section as { lmcache?: object }).lmcache ?? {})
    .map((value) => `-${value}`)
    .join("");

describe("vllmLaunch() by golden", () => {
  it.each(CELLS)("vllmLaunch() renders $offload/$role $section as in its golden", ({ offload, role, section }) => {
    const plan = launch({ offload, role }, section);
    expectGolden(goldenText(plan), join(TESTDATA, `${offload}-${role}${nameOf(section)}.golden`));
  });

  it("vllmLaunch() has no golden without a cell", () => {
    const golden = readdirSync(TESTDATA).filter((name) => name.endsWith(".golden"));
    expect(golden).toHaveLength(CELLS.length);
  });
});

interface Verdict {
  readonly id: string;
  readonly added: readonly string[];
  readonly verdicts: readonly {
    readonly vllm: string;
    readonly run: string;
    readonly ok: boolean;
    readonly stage: string;
  }[];
}

const VERDICTS = JSON.parse(readFileSync(join(TESTDATA, "vllm-verdicts.json"), "utf8")) as readonly Verdict[];

describe("transferConfigProblems() against the verdicts of real engines", () => {
  it("transferConfigProblems() refuses what vLLM's parser refuses, and nothing that it accepts", () => {
    for (const { id, added, verdicts } of VERDICTS) {
      const at = added.indexOf("--kv-transfer-config");
      if (at < 0 || id.startsWith("unknown connector") || id.includes("v2 path")) continue;
      const isAccepted = verdicts.some((v) => v.vllm === "0.33.0" && v.ok);
      expect(transferConfigProblems(added[at + 1] ?? "").length === 0, id).toBe(isAccepted);
    }
  });
});

describe("vllmLaunch()", () => {
  it("vllmLaunch() gives peers the slot's address, and a side channel of its own", () => {
    const plan = launch({ offload: "nixl", role: "prefill" });
    expect(plan.env).toMatchObject({ VLLM_NIXL_SIDE_CHANNEL_HOST: "10.0.0.5", VLLM_NIXL_SIDE_CHANNEL_PORT: "20052" });
  });

  it.each([
    ["nixl", "prefill", "fail"],
    ["nixl", "decode", "recompute"],
    ["lmcache", "prefill", "fail"],
    ["lmcache", "decode", "recompute"],
    ["kvbm", "prefill", "fail"],
  ] as const)(
    "vllmLaunch() says for %s on %s what a failed load does, on the outermost connector",
    (offload, role, policy) => {
      const text = JSON.stringify(connector(launch({ offload, role })));
      expect(connector(launch({ offload, role }))).toMatchObject({ kv_load_failure_policy: policy });
      expect(text.match(/kv_load_failure_policy/g)).toHaveLength(1);
    },
  );

  it.each(["in_process", "mp"])(
    "vllmLaunch() lets LMCache in mode %s store on prefill and only read on decode",
    (mode) => {
      // A store on decode kept the freed blocks of a failed load, and later requests got wrong text.
      const roleOf = (role: "prefill" | "decode") =>
        JSON.stringify(connector(launch({ offload: "lmcache", role }, { lmcache: { mode } })));
      expect(roleOf("prefill")).toMatch(/"LMCache\w+","kv_role":"kv_both"/);
      expect(roleOf("decode")).toMatch(/"LMCache\w+","kv_role":"kv_consumer"/);
    },
  );

  it("vllmLaunch() refuses a wildcard as the address for peers", () => {
    const slot = { ...SAMPLE_SLOT, peerAddress: "0.0.0.0" };
    expect(problemsOf(() => launch({ slot, offload: "nixl", role: "decode" }))).toHaveLength(1);
  });

  it("vllmLaunch() fails a prefill and recomputes on decode when a load fails", () => {
    expect(connector(launch({ offload: "nixl", role: "prefill" }))).toMatchObject({ kv_load_failure_policy: "fail" });
    expect(connector(launch({ offload: "nixl", role: "decode" }))).toMatchObject({
      kv_load_failure_policy: "recompute",
    });
  });

  it("vllmLaunch() stops within the drain grace less 5 s, and never at once", () => {
    expect(flag(launch({ drainGraceMs: 60_000 }), "--shutdown-timeout")).toBe("55");
    expect(flag(launch({ drainGraceMs: 2_000 }), "--shutdown-timeout")).toBe("1");
  });

  it.each([
    ["cuda", undefined, "16"],
    ["unknown", undefined, "16"],
    ["cpu", undefined, "32"],
    ["cpu", 64, "64"],
    ["cuda", 32, "32"],
  ] as const)("vllmLaunch() on %s with block size %s renders %s", (platform, blockTokens, rendered) => {
    const plan = launch({ slot: { ...SAMPLE_SLOT, platform }, ...(blockTokens === undefined ? {} : { blockTokens }) });
    expect(flag(plan, "--block-size")).toBe(rendered);
  });

  it("vllmLaunch() refuses a block size that ends vLLM on a CPU", () => {
    expect(problemsOf(() => launch({ slot: { ...SAMPLE_SLOT, platform: "cpu" }, blockTokens: 16 }))).toHaveLength(1);
  });

  it("vllmLaunch() gives engines on one CPU cores of their own", () => {
    const slot = { ...SAMPLE_SLOT, platform: "cpu", cores: 4, enginesOnHost: 2 } as const;
    expect(launch({ slot: { ...slot, indexOnHost: 1 } }).env["VLLM_CPU_OMP_THREADS_BIND"]).toBe("2-3");
    expect(codes(launch({ slot }))).toContain("cpu-cores-shared");
  });

  it("vllmLaunch() refuses more GPUs than the slot has", () => {
    expect(problemsOf(() => launch({ model: { ...SAMPLE_MODEL, tp: 4 } }))).toEqual([
      "tp = 4 needs 4 GPUs and the engine has 2 (2, 3)",
    ]);
  });

  it("vllmLaunch() lists every contradiction at once", () => {
    const extra = withExtra("--port", "1", "--host", "10.9.9.9", "--kv-offloading-size", "4");
    expect(problemsOf(() => launch({ ...extra, offload: "nixl", role: "both" }))).toHaveLength(3);
  });

  it("vllmLaunch() accepts --kv-offloading-size without a connector", () => {
    expect(flag(launch(withExtra("--kv-offloading-size", "4")), "--kv-offloading-size")).toBe("4");
  });

  it("vllmLaunch() lets the user's --kv-transfer-config win, and says so", () => {
    const own = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}';
    const plan = launch({ ...withExtra("--kv_transfer_config", own), offload: "nixl", role: "prefill" });
    expect(plan.argv.filter((word) => word.replaceAll("_", "-") === "--kv-transfer-config")).toHaveLength(1);
    expect(plan.argv).toContain(own);
    expect(codes(plan)).toContain("kv-transfer-config-written");
  });

  it("vllmLaunch() lets the model's extra_args win over the engine's", () => {
    const plan = launch(withExtra("--block-size", "64"), { extra_args: ["--block-size", "32", "--enforce-eager"] });
    expect(plan.argv.filter((word) => word === "--block-size")).toHaveLength(1);
    expect(flag(plan, "--block-size")).toBe("64");
    expect(plan.argv).toContain("--enforce-eager");
  });

  it("vllmLaunch() warns of a shutdown timeout that hangs or comes too late, and of flags that are refused", () => {
    expect(codes(launch(withExtra("--shutdown-timeout", "0")))).toContain("shutdown-timeout-zero");
    expect(codes(launch(withExtra("--shutdown-timeout", "90")))).toContain("shutdown-timeout-above-grace");
    expect(codes(launch(withExtra("--disable-log-requests")))).toContain("flag-refused");
  });

  it.each([
    [["--prefix-caching-hash-algo", "builtin"], "--prefix-caching-hash-algo builtin is no choice of vLLM"],
    [["--swap-space", "4"], "vLLM has no flag --swap-space, and does not start with it"],
    [["--kv-events-config", '{"bind":true}'], '--kv-events-config has no key "bind"'],
    [["--kv-events-config", '{"publisher":"nats"}'], '--kv-events-config has a wrong publisher: "nats"'],
  ])("vllmLaunch() refuses %j, which vLLM's own parser refuses", (words, text) => {
    expect(problemsOf(() => launch(withExtra(...words)))).toEqual([text]);
  });

  it("vllmLaunch() renders an LMCache chunk that is whole blocks, or refuses it", () => {
    const section = { lmcache: { mode: "mp", chunk_size: 100 } };
    expect(problemsOf(() => launch({ offload: "lmcache" }, section))).toEqual([
      "100 is no multiple of the block size 16",
    ]);
    expect(
      problemsOf(() => launch({ offload: "lmcache" }, { lmcache: { mode: "mp", wrapper: "pd_connector" } })),
    ).toHaveLength(1);
  });

  it("vllmLaunch() runs the LMCache server of the same environment as a path to vllm", () => {
    const plan = launch(
      { offload: "lmcache" },
      { binary: "/opt/venv/bin/vllm", lmcache: { mode: "mp", cpu_gib: 2.5 } },
    );
    expect(plan.sidecars[0]?.argv.slice(0, 2)).toEqual(["/opt/venv/bin/lmcache", "server"]);
    expect(plan.sidecars[0]?.argv).toContain("2.5");
  });

  it("vllmLaunch() lets an LMCache server serve a CPU engine", () => {
    const slot = { ...SAMPLE_SLOT, platform: "cpu" } as const;
    const plan = launch({ slot, offload: "lmcache", role: "prefill" }, { lmcache: { mode: "mp" } });
    expect(plan.sidecars[0]?.argv.slice(-2)).toEqual(["--supported-transfer-mode", "auto"]);
    expect(JSON.stringify(connector(plan))).toContain('"kv_buffer_device":"cpu"');
    expect(codes(launch({ slot, offload: "lmcache" }))).toContain("lmcache-degraded-on-cpu");
  });

  it("vllmLaunch() gives KVBM a size when none is written, keeps decode free of it", () => {
    const plan = launch({ offload: "kvbm" });
    expect(plan.env["DYN_KVBM_CPU_CACHE_GB"]).toBe("16");
    expect(codes(plan)).toEqual(["kvbm-default-size", "kvbm-retiring"]);
    expect(launch({ offload: "kvbm" }, { kvbm: { disk_cache_gib: 9 } }).env).not.toHaveProperty(
      "DYN_KVBM_CPU_CACHE_GB",
    );
    const decode = launch({ offload: "kvbm", role: "decode" });
    expect(Object.keys(decode.env).filter((name) => name.startsWith("DYN_"))).toEqual([]);
  });

  it("vllmLaunch() keeps the old command template, and adds only what it does not write", () => {
    const commandTemplate = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "-tp", "{tp}"];
    const plan = launch({ commandTemplate });
    expect(plan.argv.slice(0, 7)).toEqual([...commandTemplate.slice(0, 4), "org/model", "-tp", "2"]);
    expect(plan.argv).not.toContain("--tensor-parallel-size");
    expect(flag(plan, "--port")).toBe("8000");
  });

  it("vllmLaunch() checks what the template writes like extra_args", () => {
    expect(problemsOf(() => launch({ commandTemplate: ["vllm", "serve", "{model}", "--port", "9"] }))).toHaveLength(1);
  });

  it("vllmLaunch() loads the path, else the repository, and requires the file", () => {
    const model = { ...SAMPLE_MODEL, path: "/models/m", hfRepo: "org/other" };
    expect(launch({ model }).argv.slice(0, 3)).toEqual(["vllm", "serve", "/models/m"]);
    expect(launch({ model }).requires).toContainEqual({ what: "file", name: "/models/m" });
    const { path: _, ...repository } = model;
    expect(launch({ model: repository }).argv[2]).toBe("org/other");
  });
});

describe("vllmCell()", () => {
  it("vllmCell() names what to choose in every refusal", () => {
    const refused = KV_OFFLOADS.flatMap((offload) =>
      ROLES.map((role) => [`${offload}/${role}`, vllm.cell(offload, role)] as const),
    );
    const reasons = refused.flatMap(([name, cell]) => (cell.supported ? [] : [[name, cell.reason] as const]));
    expect(reasons.map(([name]) => name)).toEqual([
      "none/prefill",
      "none/decode",
      "hicache/both",
      "hicache/prefill",
      "hicache/decode",
    ]);
    for (const [, reason] of reasons) expect(reason).toMatch(/nixl.*lmcache.*kvbm/);
  });
});

describe("vLLM's KV events flag", () => {
  it("eventsPart() renders nothing when events are off, and history is announced", () => {
    const plan = launch({}, { kv_events: false });
    expect(plan.argv).not.toContain("--kv-events-config");
    expect(vllm.announce(sampleInput(options({ kv_events: false }))).kv.type).toBe("history");
  });

  it("eventsPart() gives each data-parallel rank its ports", () => {
    const plan = launch(withExtra("--data-parallel-size", "4"));
    expect(plan.ports).toContainEqual({ name: "kv-events", port: 20_000, count: 4 });
    expect(plan.ports).toContainEqual({ name: "kv-replay", port: 20_036, count: 4 });
    expect(problemsOf(() => launch(withExtra("-dp", "17")))).toHaveLength(1);
  });

  it("rankSources() gives each further data-parallel rank the next ports", () => {
    const ranks = (...words: string[]) => vllm.announce(sampleInput(options(), withExtra(...words))).ranks;
    expect(ranks("-dp", "3")).toMatchObject([
      { dpRank: 1, endpoint: "tcp://127.0.0.1:20001", replay: "tcp://127.0.0.1:20037" },
      { dpRank: 2, endpoint: "tcp://127.0.0.1:20002", replay: "tcp://127.0.0.1:20038" },
    ]);
    expect(ranks()).toBeUndefined();
  });

  it("eventSource() follows what the user wrote, as JSON or dotted", () => {
    const own = JSON.stringify({
      enable_kv_cache_events: true,
      endpoint: "tcp://*:7001",
      replay_endpoint: "tcp://*:7002",
      topic: "t",
    });
    const expected = {
      type: "events",
      endpoint: "tcp://127.0.0.1:7001",
      replay: "tcp://127.0.0.1:7002",
      topic: "t",
      dpRank: 0,
      origin: "agent",
    };
    const announced = (...words: string[]): unknown => vllm.announce(sampleInput(options(), withExtra(...words))).kv;
    expect(announced("--kv-events-config", own)).toEqual(expected);
    const dotted = {
      enable_kv_cache_events: "true",
      endpoint: "tcp://*:7001",
      replay_endpoint: "tcp://*:7002",
      topic: "t",
    };
    expect(announced(...Object.entries(dotted).flatMap(([k, v]) => [`--kv-events-config.${k}`, v]))).toEqual(expected);
    expect(announced("--kv-events-config", '{"enable_kv_cache_events":false}')).toMatchObject({ type: "history" });
    expect(problemsOf(() => launch(withExtra("--kv-events-config", "{")))).toHaveLength(1);
  });
});

describe("vllmAnnounce()", () => {
  it("vllmAnnounce() tells the name that the engine serves under when the user wrote another", () => {
    const said = vllm.announce(
      sampleInput(options(), withExtra("--served-model-name", "inner", "--max-model-len", "512")),
    );
    expect(said).toMatchObject({ upstreamModel: "inner", maxModelTokens: 512, blockTokens: 16 });
  });
});

describe("abbreviated flags", () => {
  it("readLaunch() reads what vLLM's parser takes for a flag by its beginning", () => {
    const plan = launch(withExtra("--block", "64", "--tensor-parallel", "1"));
    expect(plan.argv).not.toContain("--block-size");
    expect(vllm.announce(sampleInput(options(), withExtra("--block", "64"))).blockTokens).toBe(64);
    expect(vllm.announce(sampleInput(options(), withExtra("--max-model-len", "32k")))).not.toHaveProperty(
      "maxModelTokens",
    );
  });
});

describe("vllmProbe", () => {
  it("kvSources reads the captured answer", () => {
    const body = readFileSync(join(TESTDATA, "kv_event_sources.json"), "utf8");
    expect(vllm.probe.kvSources?.parse(body, "10.0.0.7")).toEqual([
      {
        type: "events",
        endpoint: "tcp://10.0.0.7:18357",
        replay: "tcp://127.0.0.1:18358",
        topic: "kv@cell0@smol",
        dpRank: 0,
      },
    ]);
    expect(vllm.probe.kvSources?.parse("{}", "h")).toEqual([]);
    // Each rank's publisher tells the ports that it bound: its own.
    const ranks = { "1": { enable_kv_cache_events: true, endpoint: "tcp://*:5558" }, "0": JSON.parse(body)["0"] };
    expect(vllm.probe.kvSources?.parse(JSON.stringify(ranks), "h")).toMatchObject([
      { dpRank: 0, endpoint: "tcp://h:18357" },
      { dpRank: 1, endpoint: "tcp://h:5558" },
    ]);
  });

  it("blockTokens and version read the captured answers", () => {
    expect(vllm.probe.blockTokens?.parse(METRICS)).toBe(32);
    expect(vllm.probe.version?.parse('{"version":"0.32.0"}')).toBe("0.32.0");
  });
});

describe("vLLM's sleep", () => {
  it("is turned on by one key: flag, development mode, and the calls", () => {
    const plan = launch({}, { sleep: 1 });
    expect(plan.argv).toContain("--enable-sleep-mode");
    expect(plan.env["VLLM_SERVER_DEV_MODE"]).toBe("1");
    expect(vllm.sleeps?.(options({ sleep: 1 }))).toEqual({
      sleep: [{ path: "/sleep?level=1&mode=wait" }],
      wake: [{ path: "/wake_up" }],
    });
    expect(vllm.sleeps?.(options({ sleep: 2 }))?.wake.map(({ path }) => path)).toEqual([
      "/wake_up?tags=weights",
      "/collective_rpc",
      "/wake_up?tags=kv_cache",
    ]);
    expect(launch().argv).not.toContain("--enable-sleep-mode");
    expect(vllm.sleeps?.(options())).toBeUndefined();
  });

  it("is refused on a CPU, and warned of where others reach the development calls", () => {
    expect(problemsOf(() => launch({ slot: { ...SAMPLE_SLOT, platform: "cpu" } }, { sleep: 1 }))).toEqual([
      "vLLM cannot sleep on a CPU: it refuses the flag there",
    ]);
    expect(codes(launch({ slot: { ...SAMPLE_SLOT, host: "0.0.0.0" } }, { sleep: 1 }))).toContain("dev-mode-open");
  });
});

// "Written by the user [extra_args]" stood beside a flag that no file had.
it("tells the default of extra_args from what the user wrote", () => {
  const why = (plan: LaunchPlan): string | undefined =>
    plan.reasons.find(({ arg }) => arg === "--enable-chunked-prefill")?.why;
  expect(why(launch())).toBe("The default of [engine.vllm].extra_args");
  expect(why(launch({}, { extra_args: ["--enable-chunked-prefill", "--seed", "1"] }))).toBe("Written by the user");
  expect(why(launch(withExtra("--enable-chunked-prefill")))).toBe("Written by the user");
  expect(why(launch(withExtra("--no-enable-chunked-prefill")))).toBeUndefined();
});
