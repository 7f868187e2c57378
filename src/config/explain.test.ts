import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { explainConfig, formatOrigin, maskSecrets } from "./explain.ts";
import { loadConfig } from "./load.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

const cwd = fileURLToPath(new URL("../../test/fixtures/config/", import.meta.url));
const explained = (path: string, env = {}, overrides = {}) =>
  new Map(
    explainConfig(loadConfig({ path, cwd, env, overrides, host: SAMPLE_HOST })).map((each) => [
      each.key,
      [each.value, formatOrigin(each.origin)],
    ]),
  );

describe("explainConfig()", () => {
  it("explainConfig() tells each value's origin: default, file and line, variable, flag", () => {
    const values = explained("router.toml", { CGN__ROUTER__NODE_ID: "r9" }, { "router.policy": "random" });
    expect(values.get("router.listen_http")).toEqual(["0.0.0.0:8080", "router.toml:9"]);
    expect(values.get("router.node_id")).toEqual(["r9", "CGN__ROUTER__NODE_ID"]);
    expect(values.get("router.policy")).toEqual(["random", "--set router.policy"]);
    expect(values.get("router.max_body_bytes")).toEqual([67_108_864, "default"]);
    expect(values.get("router.admission.ttft_slo")).toEqual(["800ms", "router.toml:23"]);
    expect(values.get("cluster.etcd_endpoints")?.[1]).toBe("router.toml:5");
    expect(values.get('models."Qwen/Qwen3-8B".tp')).toEqual([2, "router.toml:67"]);
  });

  it("explainConfig() never shows a secret", () => {
    const text = JSON.stringify([...explained("router.toml")]);
    expect(text).not.toContain("hunter2");
    expect(explained("router.toml").get("metrics.redfish_password")).toEqual(["***", "router.toml:62"]);
  });
});

describe("maskSecrets()", () => {
  // Only the word behind a flag was hidden: variables, second values and commands in one text were shown.
  it("maskSecrets() hides variables by name, each value of a flag, and both within a command", () => {
    expect(maskSecrets({ HF_TOKEN: "t", TOKENIZERS_PARALLELISM: "x", api: { secret_from: "env:A" } })).toEqual({
      HF_TOKEN: "***",
      TOKENIZERS_PARALLELISM: "x",
      api: { secret_from: "env:A" },
    });
    expect(maskSecrets(["--api-key", "a", "b", "--port", "1", "env", "DB_PASSWORD=c d", "A=b"])).toEqual([
      "--api-key",
      "***",
      "***",
      "--port",
      "1",
      "env",
      "DB_PASSWORD=***",
      "A=b",
    ]);
    expect(maskSecrets("env HF_TOKEN=t vllm serve --api-key k --max-num-batched-tokens 8 --hf-token=u")).toBe(
      "env HF_TOKEN=*** vllm serve --api-key *** --max-num-batched-tokens 8 --hf-token=***",
    );
  });

  it("maskSecrets() hides passwords of URLs and what follows key flags", () => {
    expect(maskSecrets(["--api-key", "k", "--hf-token=t", "x", "http://u:p@h/"])).toEqual([
      "--api-key",
      "***",
      "--hf-token=***",
      "x",
      "http://***@h/",
    ]);
    expect(maskSecrets({ a: ["--max-num-batched-tokens", "8192"] })).toEqual({
      a: ["--max-num-batched-tokens", "8192"],
    });
  });
});
