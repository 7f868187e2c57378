import { describe, expect, it } from "vitest";
import { runLaunchCases, SAMPLE_MODEL, sampleInput } from "../launch.case.ts";
import { runProbeCases } from "../probe.case.ts";
import { mlx } from "./mlx.ts";
import { mlxSchema } from "./mlx-options.ts";
import chat from "./testdata/chat.json" with { type: "json" };
import flags from "./testdata/flags.json" with { type: "json" };
import models from "./testdata/get_models.json" with { type: "json" };

const DEFAULTS = mlxSchema.parse({});
const MODEL = { ...SAMPLE_MODEL, name: "smol", path: "/models/smol", tp: 1 };

runLaunchCases(mlx, DEFAULTS);
runProbeCases(
  "mlx",
  mlx.probe,
  {
    ready: { status: chat.response.status, body: JSON.stringify(chat.response.body) },
    models: JSON.stringify(models.response.body),
  },
  { "reads a load between 0 and 1 from real metrics": "mlx_lm server has no /metrics" },
);

describe("launchMlx()", () => {
  it("renders the server with its model", () => {
    const plan = mlx.launch(sampleInput(DEFAULTS, { model: MODEL }));
    expect(plan.argv.join(" ")).toBe("python3 -m mlx_lm server --model /models/smol --host 127.0.0.1 --port 8000");
    expect(plan.warnings).toEqual([]);
  });

  it("renders only flags that the help text names", () => {
    const { argv } = mlx.launch(sampleInput(DEFAULTS, { model: MODEL }));
    expect(argv.filter((word) => word.startsWith("--") && !flags["mlx_lm server"].includes(word))).toEqual([]);
  });

  it("is ready only when it answered a token, since /health is 200 before the model is loaded", () => {
    const { ready } = mlx.launch(sampleInput(DEFAULTS, { model: MODEL }));
    expect(ready).toMatchObject({ path: "/v1/chat/completions", method: "POST" });
    expect(JSON.parse(ready.body ?? "")).toMatchObject({ model: "default_model", max_tokens: 1 });
    expect(mlx.probe.ready.verdict({ status: 404, body: '{"error":"generation thread died"}' })).toBe("failed");
  });
});

describe("mlx", () => {
  it("announces the launch path as the name that requests must carry", () => {
    expect(mlx.announce(sampleInput(DEFAULTS, { model: MODEL }))).toEqual({
      kv: { type: "history", entries: 10 },
      tokenizer: { dir: "/models/smol" },
      upstreamModel: "/models/smol",
      maxModelTokens: 8192,
    });
  });

  it("follows --prompt-cache-size and --model of extra_args", () => {
    const options = mlxSchema.parse({ extra_args: ["--prompt-cache-size", "3", "--model", "/other"] });
    expect(mlx.announce(sampleInput(options, { model: MODEL }))).toMatchObject({
      kv: { type: "history", entries: 3 },
      upstreamModel: "/other",
    });
  });

  it("is read from [engine.mlx] and [engine.mlx_lm], on port 8090", () => {
    expect([mlx.section, ...mlx.sectionAliases]).toEqual(["mlx", "mlx_lm"]);
    expect(mlx.defaultPort(DEFAULTS)).toBe(8090);
  });

  it("refuses every other offload and role", () => {
    expect(mlx.cell("nixl", "decode")).toMatchObject({
      supported: false,
      reason: expect.stringMatching(/only none.*role must be both/),
    });
  });

  it("takes an empty model list as none: it is what comes without a hub cache folder", () => {
    expect(mlx.probe.models?.parse("")).toEqual([]);
  });
});
