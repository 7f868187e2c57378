import { describe, expect, it } from "vitest";
import { isCgnError } from "../../core/errors.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import type { LaunchInput } from "../engine.ts";
import { runLaunchCases, SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "../launch.case.ts";
import { runProbeCases } from "../probe.case.ts";
import { llamaCpp } from "./llama-cpp.ts";
import { type LlamaCppOptions, llamaCppSchema } from "./llama-cpp-options.ts";
import helpFlags from "./testdata/flags.json" with { type: "json" };
import models from "./testdata/get_models.json" with { type: "json" };
import props from "./testdata/get_props.json" with { type: "json" };
import metrics from "./testdata/metrics.json" with { type: "json" };

const parse = (options: object): LlamaCppOptions => llamaCppSchema.parse(options);

for (const mode of ["binary", "python_server", "xllamacpp"] as const) {
  describe(`mode ${mode}`, () => runLaunchCases(llamaCpp, parse({ mode })));
}
runProbeCases("llama_cpp", llamaCpp.probe, {
  ready: { status: 200, body: '{"status":"ok"}' },
  metrics: metrics.text,
  models: JSON.stringify(models.response.body),
});

/** How a llama-server with its defaults keeps prompts. */
const SLOTS = { count: 4, minShare: 0.1, storeTokens: 65_536, emptiesFree: true, savesFree: true };
const UNSAVED = { count: 4, minShare: 0.1, storeTokens: 65_536, emptiesFree: false };
const HISTORY = { type: "history", entries: 4, slots: SLOTS };

const GGUF = { ...SAMPLE_MODEL, name: "smol", path: "/models/smol.gguf", tp: 1 };

function launch(options: object, over: Partial<LaunchInput<LlamaCppOptions>> = {}): LaunchPlan {
  return llamaCpp.launch(sampleInput(parse(options), { model: GGUF, ...over }));
}

function refusal(options: object, over: Partial<LaunchInput<LlamaCppOptions>> = {}): string {
  try {
    launch(options, over);
    return "";
  } catch (e) {
    return isCgnError(e, "CONFIG_INVALID") ? e.details.problems.map((p) => p.path).join() : String(e);
  }
}

describe("launchLlamaCpp()", () => {
  const flags =
    "--model /models/smol.gguf --alias smol --host 127.0.0.1 --port 8000 --ctx-size 8192 --threads 8 --n-gpu-layers 0 --metrics --slots";

  for (const [mode, known] of [
    ["binary", helpFlags["llama-server"]],
    ["xllamacpp", helpFlags["llama-server"]],
    ["python_server", helpFlags["llama_cpp.server"]],
  ] as const) {
    it(`renders only flags that the help text of mode ${mode} names`, () => {
      const { argv } = launch({ mode, ...(mode === "python_server" ? {} : { parallel: 2 }) });
      const rendered = argv.filter((word) => word.startsWith("--"));
      expect(rendered.filter((flag) => !known.includes(flag))).toEqual([]);
      expect(rendered.length).toBeGreaterThan(7);
    });
  }

  it("renders llama-server without --parallel, so that its slots share one context", () => {
    expect(launch({ mode: "binary" }).argv.join(" ")).toBe(`llama-server ${flags}`);
  });

  it("renders the xllamacpp launcher with the same flags", () => {
    const slot = { ...SAMPLE_SLOT, launcherDir: "/opt/cgn/launchers" };
    const plan = launch({ mode: "xllamacpp", binary: "/venv/bin/python" }, { slot });
    expect(plan.argv.join(" ")).toBe(`/venv/bin/python /opt/cgn/launchers/xllamacpp_server.py ${flags}`);
    expect(plan.requires).toContainEqual({ what: "file", name: "/opt/cgn/launchers/xllamacpp_server.py" });
    expect(plan.requires).toContainEqual({ what: "file", name: "/models/smol.gguf" });
  });

  it("renders llama_cpp.server with its own spelling", () => {
    const plan = launch({ mode: "python_server" });
    expect(plan.argv.join(" ")).toBe(
      "python3 -m llama_cpp.server --model /models/smol.gguf --model_alias smol --n_ctx 8192 --n_threads 8 --n_gpu_layers 0 --host 127.0.0.1 --port 8000 --interrupt_requests false",
    );
    expect(plan.ready.path).toBe("/v1/models");
  });

  it("multiplies the context by an explicit --parallel, from the key or from extra_args", () => {
    for (const options of [{ parallel: 4 }, { extra_args: ["-np", "4"] }]) {
      const plan = launch({ mode: "binary", n_ctx: 2048, ...options });
      expect(plan.argv[plan.argv.indexOf("--ctx-size") + 1]).toBe("8192");
      expect(llamaCpp.announce(sampleInput(parse({ mode: "binary", n_ctx: 2048, ...options }))).maxModelTokens).toBe(
        2048,
      );
    }
  });

  it("gives each engine of a host its share of the cores, and at least one thread", () => {
    const threads = (cores: number, enginesOnHost: number): string | undefined => {
      const { argv } = launch({ mode: "binary" }, { slot: { ...SAMPLE_SLOT, cores, enginesOnHost } });
      return argv[argv.indexOf("--threads") + 1];
    };
    expect([threads(2, 2), threads(7, 2), threads(2, 4)]).toEqual(["1", "3", "1"]);
    const { argv } = launch({ mode: "binary", n_threads: 5 });
    expect(argv[argv.indexOf("--threads") + 1]).toBe("5");
  });

  it("spells all layers as each server does", () => {
    expect(launch({ mode: "binary", n_gpu_layers: -1 }).argv.join(" ")).toContain("--n-gpu-layers all");
    expect(launch({ mode: "python_server", n_gpu_layers: -1 }).argv.join(" ")).toContain("--n_gpu_layers -1");
  });

  it("takes the mode from the program's name, then from what the host has", () => {
    const program = (options: object, found: readonly string[] = []): string =>
      launch(options, { slot: { ...SAMPLE_SLOT, found } })
        .argv.slice(0, 3)
        .join(" ");
    expect(program({ binary: "/opt/llama-server" })).toBe("/opt/llama-server --model /models/smol.gguf");
    expect(program({ binary: "/venv/bin/python" })).toBe("/venv/bin/python -m llama_cpp.server");
    expect(program({}, ["llama-server"])).toBe("llama-server --model /models/smol.gguf");
    expect(program({})).toBe("python3 -m llama_cpp.server");
  });

  it("loads from the hub only where the server can", () => {
    const { path: _, ...model } = { ...GGUF, hfRepo: "org/repo-GGUF" };
    expect(launch({ mode: "binary" }, { model }).argv.slice(0, 3)).toEqual([
      "llama-server",
      "--hf-repo",
      "org/repo-GGUF",
    ]);
    expect(refusal({ mode: "xllamacpp" }, { model })).toBe("models");
    expect(refusal({ mode: "python_server" }, { model })).toBe("models");
  });

  it("refuses what contradicts itself", () => {
    expect(refusal({ mode: "python_server", parallel: 2 })).toBe("engine.llama_cpp.parallel");
    expect(refusal({ mode: "binary", extra_args: ["--models-dir", "/m"] })).toBe("engine.llama_cpp.extra_args");
    expect(refusal({ mode: "binary", extra_args: ["--host", "10.0.0.1"] })).toBe("engine.llama_cpp.extra_args");
  });

  it("ends llama-server by a second SIGTERM", () => {
    expect(launch({ mode: "binary" }).stop).toEqual({ graceMs: 5000, secondTermMs: 1000, drainsOnSigterm: false });
    expect(launch({ mode: "xllamacpp" }).stop.secondTermMs).toBeUndefined();
  });
});

describe("llamaCpp", () => {
  it("knows that llama_cpp.server tells no cached tokens and must not be folded", () => {
    expect(llamaCpp.traitsFor?.(parse({ mode: "python_server" }))).toEqual({
      ignoresModelName: true,
      lacksLogprobs: true,
      lacks: expect.any(Array),
    });
    expect(llamaCpp.traitsFor?.(parse({ mode: "xllamacpp" }))).toBe(llamaCpp.traits);
    expect(llamaCpp.traits).toMatchObject({
      reportsCachedTokens: true,
      foldNonStreaming: true,
      ignoresModelName: true,
    });
  });

  it("takes an adopted engine for llama-server unless its mode is written", () => {
    const entries = (options: object) => llamaCpp.announce(sampleInput(parse(options), { adopted: true })).kv;
    expect(entries({})).toEqual(HISTORY);
    expect(entries({ mode: "python_server" })).toEqual({ type: "history", entries: 1 });
    expect(llamaCpp.traitsFor?.(parse({}))).toBe(llamaCpp.traits);
    expect(llamaCpp.traitsFor?.(parse({}), SAMPLE_SLOT)).toEqual(
      llamaCpp.traitsFor?.(parse({ mode: "python_server" })),
    );
  });

  it("announces a history that fits slots and store, and the GGUF as tokenizer", () => {
    const announce = (options: object) => llamaCpp.announce(sampleInput(parse(options), { model: GGUF }));
    expect(announce({ mode: "binary" })).toEqual({
      kv: HISTORY,
      tokenizer: { gguf: "/models/smol.gguf" },
      maxModelTokens: 8192,
    });
    const slots = (options: object) => {
      const { kv } = announce({ mode: "binary", ...options });
      return kv.type === "history" ? kv.slots : undefined;
    };
    // With a context a slot there are copies, and nothing is emptied; without a store there is nowhere to.
    expect(slots({ parallel: 2 })).toEqual({ ...SLOTS, count: 2, emptiesFree: false });
    expect(slots({ extra_args: ["--cache-ram", "0"] })).toEqual({ ...UNSAVED, storeTokens: 0 });
    expect(slots({ extra_args: ["--cache-ram", "-1", "-sps", "0.5"] })).toMatchObject({ minShare: 0.5 });
    expect(slots({ parallel: 2, extra_args: ["-kvu"] })).toEqual({ ...SLOTS, count: 2 });
    expect(slots({ extra_args: ["--no-cache-idle-slots"] })).toEqual(UNSAVED);
    expect(announce({ mode: "python_server" }).kv).toEqual({ type: "history", entries: 1 });
  });

  it("refuses every other offload and role, each with its reason", () => {
    expect(llamaCpp.cell("none", "both")).toMatchObject({ supported: true });
    expect(llamaCpp.cell("hicache", "both")).toMatchObject({
      supported: false,
      reason: expect.stringMatching(/^llama.cpp has no KV connector/),
    });
    expect(llamaCpp.cell("none", "prefill")).toMatchObject({
      supported: false,
      reason: expect.stringMatching(/role must be both$/),
    });
  });
});

describe("llamaCppProbe", () => {
  const { probe } = llamaCpp;
  const body = JSON.stringify(props.response.body);

  it("waits on 503 while the model loads", () => {
    expect(probe.ready.verdict({ status: 503, body: '{"error":{"message":"Loading model"}}' })).toBe("loading");
    expect(probe.ready.verdict({ status: 404, body: "" })).toBe("ready");
    expect(probe.ready.verdict({ status: 500, body: "" })).toBe("failed");
  });
  it("reads the chat template with its tokens from /props", () => {
    expect(probe.template?.parse(body)).toMatchObject({
      template: props.response.body.chat_template,
      bos: "<|im_start|>",
      eos: "<|im_end|>",
      chat: { contents: "text", textArguments: true },
    });
    expect(probe.template?.parse('{"role":"router"}')).toBeUndefined();
  });
  it("reads a version only where the build has one", () => {
    expect(probe.version?.parse(body)).toBeUndefined();
    expect(probe.version?.parse('{"build_info":"b6991-1a2b3c"}')).toBe("b6991-1a2b3c");
  });
  it("reads the model with the context of a slot", () => {
    expect(probe.models?.parse(JSON.stringify(models.response.body))).toEqual([
      { id: "smollm2", maxModelTokens: 2048 },
    ]);
  });
  it("reads the slots of an adopted server from /props", () => {
    expect(probe.kvSources?.parse(body, "127.0.0.1")).toEqual([HISTORY]);
    expect(probe.kvSources?.parse('{"total_slots":2}', "127.0.0.1")).toEqual([
      { ...HISTORY, entries: 2, slots: { ...SLOTS, count: 2, emptiesFree: false } },
    ]);
    expect(probe.kvSources?.parse('{"total_slots":1e9}', "127.0.0.1")).toEqual([]);
  });
  it("reads requests in work and waiting", () => {
    expect(probe.metrics?.parse("llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n")).toEqual({
      running: 2,
      waiting: 1,
    });
  });
});
