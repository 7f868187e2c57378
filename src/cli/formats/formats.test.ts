// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of systemd and Compose
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig, throwOnErrors } from "../../config/load.ts";
import { planEngine } from "../../config/plan.ts";
import { SAMPLE_HOST } from "../../config/sample-host.ts";
import { isCgnError } from "../../core/errors.ts";
import { composeFiles } from "./compose.ts";
import { planDiff } from "./diff.ts";
import { k8sFiles } from "./k8s.ts";
import { type RenderedEngine, takeSecrets, unitNames } from "./rendered-engine.ts";
import { systemdFiles, systemdWord } from "./systemd.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

function engines(recipe: string, overrides: Record<string, string> = {}): RenderedEngine[] {
  const loaded = loadConfig({ path: `recipes/${recipe}.toml`, cwd: ROOT, env: {}, host: SAMPLE_HOST, overrides });
  throwOnErrors(loaded);
  const names = unitNames(loaded.settings.engines);
  return loaded.settings.engines.map((settings, n) => ({ name: names[n]!, plan: planEngine(settings), settings }));
}

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
