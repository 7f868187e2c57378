import { describe, expect, it } from "vitest";
import { runLaunchCases, SAMPLE_MODEL, sampleInput } from "../launch.case.ts";
import { runProbeCases } from "../probe.case.ts";
import { openaiCompat } from "./openai-compat.ts";
import { openaiCompatSchema } from "./openai-compat-options.ts";

const DEFAULTS = openaiCompatSchema.parse({});
const NOTHING = "nothing is spawned";

runLaunchCases(openaiCompat, DEFAULTS, {
  "binds the slot's host and port": NOTHING,
  "sees only the slot's GPUs": NOTHING,
  "does not double what the user wrote": NOTHING,
  "passes on flags that it does not know": NOTHING,
  "refuses a port in extra_args that contradicts the URL": NOTHING,
});
runProbeCases(
  "openai_compat",
  openaiCompat.probe,
  {
    ready: { status: 200, body: '{"object":"list","data":[]}' },
    models: '{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}',
  },
  { "reads a load between 0 and 1 from real metrics": "OpenAI's API has no metrics" },
);

describe("openaiCompat", () => {
  it("spawns nothing, and says that extra_args are not used", () => {
    const plan = openaiCompat.launch(sampleInput(DEFAULTS, { model: { ...SAMPLE_MODEL, extraArgs: ["--x"] } }));
    expect([plan.argv, plan.ports, plan.env]).toEqual([[], [], {}]);
    expect(plan.warnings.map((w) => w.code)).toEqual(["extra-args-unused"]);
  });

  it("takes an endpoint that asks for a key as up, and a gateway error as loading", () => {
    const verdict = (status: number): string => openaiCompat.probe.ready.verdict({ status, body: "" });
    expect([401, 403, 404].map(verdict)).toEqual(["ready", "ready", "ready"]);
    expect([502, 503, 504].map(verdict)).toEqual(["loading", "loading", "loading"]);
    expect(verdict(500)).toBe("failed");
  });

  it("announces a history and the upstream name", () => {
    const options = openaiCompatSchema.parse({ upstream_model: "gpt-x", cached_prompts: 5 });
    expect(openaiCompat.announce(sampleInput(options))).toEqual({
      kv: { type: "history", entries: 5, minTokens: 16 },
      tokenizer: {},
      upstreamModel: "gpt-x",
      maxModelTokens: 8192,
    });
  });

  it("refuses every other offload and role", () => {
    expect(openaiCompat.cell("none", "decode")).toMatchObject({
      supported: false,
      reason: expect.stringMatching(/role must be both/),
    });
    expect(openaiCompat.cell("lmcache", "both")).toMatchObject({
      supported: false,
      reason: expect.stringMatching(/only none/),
    });
  });
});
