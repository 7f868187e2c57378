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
