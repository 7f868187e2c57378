// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of systemd and Compose
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig, throwOnErrors } from "../../config/load.ts";
import { planEngine } from "../../config/plan.ts";
import { SAMPLE_HOST } from "../../config/sample-host.ts";
import { isCgnError } from "../../core/errors.ts";
import { composeFiles } from "./compose.ts";
import { planDiff } from "./diff.ts";
import { imageOf } from "./images.ts";
import { k8sFiles } from "./k8s.ts";
import { type RenderedEngine, takeSecrets, unitNames } from "./rendered-engine.ts";
import { systemdFiles, systemdWord } from "./systemd.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

function engines(recipe: string, overrides: Record<string, string> = {}): RenderedEngine[] {
  return rendered({ path: `recipes/${recipe}.toml`, overrides });
}

function rendered(options: Partial<Parameters<typeof loadConfig>[0]>): RenderedEngine[] {
  const loaded = loadConfig({ cwd: ROOT, env: {}, host: SAMPLE_HOST, ...options });
  throwOnErrors(loaded);
  const names = unitNames(loaded.settings.engines);
  return loaded.settings.engines.map((settings, n) => ({ name: names[n]!, plan: planEngine(settings), settings }));
}

interface Service {
  readonly volumes: readonly object[];
  readonly deploy: {
    readonly resources: { readonly reservations: { readonly devices: { count?: number; device_ids: string[] }[] } };
  };
}

/** Engines of a file with this text, on a host without GPUs of its own. */
function written(text: string): RenderedEngine[] {
  const path = join(DIR, `${randomUUID()}.toml`);
  writeFileSync(path, text);
  return rendered({ path, host: { ...SAMPLE_HOST, gpus: [] } });
}

const DIR = mkdtempSync(join(tmpdir(), "cgn-formats-"));
afterAll(() => rmSync(DIR, { recursive: true }));

const DISAGG = "qwen3-8b/vllm/lmcache-mp-disagg";
const SECRET = { 'models."Qwen/Qwen3-8B".extra_args': '["--api-key", "k-one", "--hf-token=k-two"]' };

describe("systemdFiles", () => {
  it("systemdFiles() gives a unit an engine and one for each process beside it, tied together", () => {
    const files = systemdFiles(engines(DISAGG));
    expect(files.map(({ path }) => path)).toEqual([
      "cgn-prefill-0-lmcache.service",
      "cgn-prefill-0.service",
      "cgn-decode-0-lmcache.service",
      "cgn-decode-0.service",
    ]);
    expect(files[1]!.text).toContain("Requires=cgn-prefill-0-lmcache.service");
    expect(files[1]!.text).toMatch(/^KillMode=mixed$/m);
    expect(files[0]!.text).toContain("PartOf=cgn-prefill-0.service");
  });

  it("systemdFiles() sends an engine that needs it a second SIGTERM", () => {
    const [unit] = systemdFiles(engines("smollm2-135m/llama-cpp/binary"));
    expect(unit!.text).toMatch(/^ExecStop=.*kill -TERM "\$\$MAINPID"; sleep \d+'$/m);
  });

  it("systemdFiles() keeps secrets in a file that only root reads", () => {
    const files = systemdFiles(engines("qwen3-8b/vllm/none-both", SECRET));
    expect(files.map(({ text }) => text).join("")).not.toMatch(/k-one|k-two/);
    expect(files[0]!.text).toContain(" --api-key ${CGN_API_KEY} --hf-token=${CGN_HF_TOKEN}");
    expect(files[0]!.text).toMatch(/^EnvironmentFile=\/etc\/cgn\/.*\.env$/m);
    expect(files[1]).toMatchObject({ mode: 0o600 });
    expect(files[1]!.text).toMatch(/^CGN_API_KEY=$/m);
  });

  it("systemdWord() takes specifiers, variables and quotes literally", () => {
    expect(systemdWord({ text: "100%" })).toBe("100%%");
    expect(systemdWord({ text: "$HOME" })).toBe("$$HOME");
    expect(systemdWord({ text: '{"a":"b c"}' })).toBe('"{\\"a\\":\\"b c\\"}"');
    expect(systemdWord({ text: "" })).toBe('""');
    expect(systemdWord({ text: "a\nb" })).toBe('"a\\nb"');
    expect(systemdWord({ text: "", secret: "CGN_KEY" })).toBe("${CGN_KEY}");
  });
});

describe("composeFiles", () => {
  const services = (files: readonly { text: string }[]) => parse(files[0]!.text).services;

  it("composeFiles() gives each engine its GPUs by index and no mask of them", () => {
    const { "decode-0": decode, "decode-0-lmcache": beside } = services(composeFiles(engines(DISAGG), {}));
    expect(decode.deploy.resources.reservations.devices[0].device_ids).toEqual(["1"]);
    expect(decode.environment).not.toHaveProperty("CUDA_VISIBLE_DEVICES");
    expect(decode.depends_on).toEqual(["decode-0-lmcache"]);
    expect(beside.entrypoint.slice(0, 2)).toEqual(["lmcache", "server"]);
  });

  it("composeFiles() takes secrets from the shell, and dollars literally", () => {
    const [file] = composeFiles(engines("qwen3-8b/vllm/none-both", SECRET), {});
    expect(file!.text).not.toMatch(/k-one|k-two/);
    expect(parse(file!.text).services).toMatchObject({
      [Object.keys(parse(file!.text).services)[0]!]: {
        entrypoint: expect.arrayContaining(["${CGN_API_KEY:?}", "--hf-token=${CGN_HF_TOKEN:?}"]),
      },
    });
  });

  // The short form "source:target:ro" was cut at the colon of a path.
  it("composeFiles() mounts a path with a colon", () => {
    const [file] = composeFiles(engines("qwen3-8b/vllm/none-both", { 'models."Qwen/Qwen3-8B".path': "/m:odd/x" }), {});
    const [service] = Object.values<Service>(parse(file!.text).services);
    expect(service?.volumes).toContainEqual({ type: "bind", source: "/m:odd/x", target: "/m:odd/x", read_only: true });
  });

  it("composeFiles() asks for an image where the kind has none", () => {
    const llama = engines("smollm2-135m/llama-cpp/binary");
    let thrown: unknown;
    try {
      composeFiles(llama, {});
    } catch (e) {
      thrown = e;
    }
    expect(isCgnError(thrown, "BAD_INVOCATION")).toBe(true);
    expect(Object.values<{ image: string }>(services(composeFiles(llama, { image: "mine:1" })))[0]!.image).toBe(
      "mine:1",
    );
  });
});

describe("k8sFiles", () => {
  const objects = (recipe: string, overrides: Record<string, string> = {}) =>
    parseAllDocuments(k8sFiles(engines(recipe, overrides), {})[0]!.text).map((document) => document.toJS());

  it("k8sFiles() uses the node's network for an engine on loopback, and the pod's with a Service elsewhere", () => {
    const [local] = objects("qwen3-8b/vllm/none-both");
    expect(local.spec.template.spec.hostNetwork).toBe(true);
    expect(local.spec.template.spec.containers[0].readinessProbe.httpGet.host).toBe("127.0.0.1");
    const [deployment, service] = objects("qwen3-8b/vllm/none-both", { "engine.url": "http://0.0.0.0:8001" });
    expect(deployment.spec.template.spec).not.toHaveProperty("hostNetwork");
    expect(service).toMatchObject({ kind: "Service", spec: { ports: [{ port: 8001 }] } });
  });

  // A pod has no such address to bind: it got a network of its own and could not start.
  it("k8sFiles() uses the node's network for an engine on an address of the node, and looks for it there", () => {
    const all = objects("qwen3-8b/vllm/none-both", { "engine.url": "http://10.1.1.1:25701" });
    expect(all.map(({ kind }) => kind)).toEqual(["Deployment"]);
    const { spec } = all[0].spec.template;
    expect(spec.hostNetwork).toBe(true);
    expect(spec.containers[0].readinessProbe.httpGet).toMatchObject({ host: "10.1.1.1", port: 25701 });
  });

  // Only "$(" was escaped, and Kubernetes made one dollar of each "$$".
  it("k8sFiles() keeps dollars in words and values as they are", () => {
    const [engine] = engines("qwen3-8b/vllm/none-both", {
      'models."Qwen/Qwen3-8B".extra_args': '["--x", "$$(A) $$ $B $(C)"]',
    });
    const plan = { ...engine!.plan, env: { ODD: "a$$b$(C)$" } };
    const [deployment] = parseAllDocuments(k8sFiles([{ ...engine!, plan }], {})[0]!.text);
    const { command, env } = deployment!.toJS().spec.template.spec.containers[0];
    expect(command.at(-1)).toBe("$$$$(A) $$$$ $$B $$(C)");
    expect(env).toEqual([{ name: "ODD", value: "a$$$$b$$(C)$$" }]);
  });

  it("k8sFiles() asks for as many GPUs as the engine has, and starts what stands beside it first", () => {
    const [prefill] = objects(DISAGG);
    const { initContainers, containers } = prefill.spec.template.spec;
    expect(containers[0].resources.limits).toEqual({ "nvidia.com/gpu": 1 });
    expect(initContainers[0]).toMatchObject({ name: "lmcache", restartPolicy: "Always" });
  });

  it("k8sFiles() reads secrets from a Secret, also in the command line", () => {
    const { containers } = objects("qwen3-8b/vllm/none-both", SECRET)[0].spec.template.spec;
    expect(JSON.stringify(containers)).not.toMatch(/k-one|k-two/);
    expect(containers[0].command).toContain("$(CGN_API_KEY)");
    expect(containers[0].env).toContainEqual(
      expect.objectContaining({ name: "CGN_API_KEY", valueFrom: { secretKeyRef: expect.anything() } }),
    );
  });
});

// Only engines with gpus or gpu_index in the file asked for a GPU; the README's own first file asked for none.
describe("GPUs", () => {
  const file = (kind: string, more: string, section = "") =>
    written(
      `[models.m]\nhf_repo = "a/b"\n${more}\n[engine]\nkind = "${kind}"\nurl = "http://127.0.0.1:8000"\n${section}`,
    );
  it.each([
    ["vllm", "tp = 1", "", 1],
    ["vllm", "tp = 4", "", 4],
    ["vllm", 'tp = 2\nextra_args = ["--data-parallel-size", "2"]', "", 4],
    ["vllm", 'extra_args = ["--pipeline-parallel-size=3"]', "", 3],
    ["vllm", "tp = 2", "gpus = [4, 5]\n", 2],
    ["vllm", "tp = 4", '[agent]\nplatform = "cpu"', 0],
    ["vllm", "tp = 4", '[engine.env]\nVLLM_TARGET_DEVICE = "cpu"', 0],
    ["sglang", "tp = 2", "", 2],
    ["sglang", 'tp = 2\nextra_args = ["--dp-size", "2"]', "", 4],
    ["sglang", 'tp = 2\nextra_args = ["--dp-size", "2", "--enable-dp-attention"]', "", 2],
    ["sglang", "tp = 2", '[agent]\nplatform = "cpu"', 0],
    ["llama_cpp", 'path = "/m.gguf"', "", 0],
    ["llama_cpp", 'path = "/m.gguf"', "[engine.llama_cpp]\nn_gpu_layers = -1", 1],
  ])("of %s with %j and %j are %i, in each format", (kind, model, section, count) => {
    const own = file(kind, model, section);
    const [service] = Object.values<Service>(parse(composeFiles(own, { image: "i" })[0]!.text).services);
    const device = service?.deploy?.resources.reservations.devices[0];
    expect(device?.count ?? device?.device_ids.length ?? 0).toBe(count);
    const [deployment] = parseAllDocuments(k8sFiles(own, { image: "i" })[0]!.text).map((each) => each.toJS());
    const { resources } = deployment.spec.template.spec.containers[0];
    expect(resources?.limits["nvidia.com/gpu"] ?? 0).toBe(count);
  });

  it("are each engine's own where one Compose file has several", () => {
    const two = written(
      '[models.m]\nhf_repo = "a/b"\ntp = 2\n[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:1"\n' +
        '[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:2"\ngpus = [1, 2]\n',
    );
    const services = Object.values<Service>(parse(composeFiles(two, {})[0]!.text).services);
    expect(services.map((each) => each.deploy.resources.reservations.devices[0]?.device_ids)).toEqual([
      ["0", "3"],
      ["1", "2"],
    ]);
  });
});

describe("imageOf", () => {
  // The image was a version behind what --explain said that the plan is rendered for.
  it.each(["vllm", "sglang"] as const)("imageOf() is of the version that %s is rendered for", (kind) => {
    const [engine] = written(`[models.m]\nhf_repo = "a/b"\n[engine]\nkind = "${kind}"\nurl = "http://127.0.0.1:1"\n`);
    const said = engine!.plan.reasons.find(({ arg }) => arg === "(version)")!.why;
    const tag = imageOf(engine!, {}).split(":v")[1]!;
    expect(said).toContain(` ${tag},`);
    const slot = { ...engine!.settings.slot, engineVersion: "0.30.1+cpu" };
    expect(imageOf({ ...engine!, settings: { ...engine!.settings, slot } }, {})).toMatch(/:v0\.30\.1$/);
  });
});

describe("planDiff", () => {
  it("planDiff() tells what one offload adds to another, with its reason", () => {
    const [before] = engines("qwen3-8b/vllm/none-both");
    const [after] = engines("qwen3-8b/vllm/none-both", { "engine.kv_offload": "lmcache" });
    const changes = planDiff(before!.plan, after!.plan).filter(({ change }) => change !== "same");
    expect(changes.every(({ change }) => change === "added")).toBe(true);
    const transfer = changes.find(({ item }) => item.key === "--kv-transfer-config");
    expect(transfer?.item.text).toContain("LMCacheConnectorV1");
    expect(transfer?.item.why).toMatch(/\[.*\]$/);
    expect(planDiff(before!.plan, before!.plan).every(({ change }) => change === "same")).toBe(true);
  });
});

describe("takeSecrets", () => {
  it("takeSecrets() leaves a command line without secrets as it is", () => {
    const argv = ["vllm", "serve", "--port", "8001", "--api-key-file", "x"];
    expect(takeSecrets(argv)).toEqual(argv.map((text) => ({ text })));
  });
});

describe("unitNames", () => {
  it("unitNames() gives names that fit every format, each once", () => {
    const [engine] = engines("qwen3-8b/vllm/none-both");
    const named = (nodeId: string) => ({ ...engine!.settings, nodeId });
    expect(unitNames([named("GPU_Box.1"), named("gpu-box-1"), named("")])).toEqual([
      "gpu-box-1",
      "gpu-box-1-2",
      "vllm-2",
    ]);
  });
});
