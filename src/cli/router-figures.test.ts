import { describe, expect, it } from "vitest";
import { figuresBetween, lookOf } from "./router-figures.ts";
import { routerJson, routerText } from "./router-view.ts";

const STATUS = {
  node: "r1",
  draining: false,
  policy: "ttft",
  access: { auth: true, rateLimit: { store: "redis", state: "lost", onLoss: "local" } },
  models: [{ model: "m", workers: 2, ready: 1, running: 3, queued: 2, waitingForLoad: 1 }],
  workers: [
    {
      id: "w1",
      node: "w1",
      kind: "vllm",
      url: "http://x",
      models: ["m"],
      state: "ready",
      reason: "",
      takesRequests: true,
      load: { inFlight: 3, queuedTokens: 40, streams: 1 },
      cache: { requests: 5, predictedTokens: 90, reportedTokens: 80 },
    },
    {
      id: "w2",
      node: "w2",
      kind: "vllm",
      url: "http://y",
      models: ["m"],
      state: "down",
      reason: "",
      takesRequests: false,
      whyNot: "connection \u001b[31mrefused",
      load: { inFlight: 0, queuedTokens: 0, streams: 0 },
      cache: { requests: 0, predictedTokens: 0, reportedTokens: 0 },
    },
  ],
};

function metrics(requests: number, failed: number, under: number, over: number): string {
  return `# HELP x y
cgn_router_requests_total{model="m",subject="a",outcome="ok"} ${requests - failed}
cgn_router_requests_total{model="m",subject="a \\"q\\"",outcome="upstream_error"} ${failed}
cgn_router_ttft_seconds_bucket{le="0.1",model="m"} ${under}
cgn_router_ttft_seconds_bucket{le="0.5",model="m"} ${under + over}
cgn_router_ttft_seconds_bucket{le="+Inf",model="m"} ${under + over}
cgn_router_prompt_tokens_total{model="m"} ${requests * 100}
cgn_router_cached_tokens_total{model="m"} ${requests * 25}
cgn_router_predicted_cached_tokens_total{model="m"} ${requests * 30}
cgn_router_completion_tokens_total{model="m"} ${requests * 10}
cgn_router_worker_requests_total{worker="w1",outcome="ok"} ${requests}
cgn_router_connections 7
`;
}

const at = (ms: number, text: string) => lookOf(ms, JSON.stringify(STATUS), text);

describe("figuresBetween()", () => {
  it("gives rates and percentiles of what came between two looks", () => {
    const { all, models, workers, connections } = figuresBetween(
      at(0, metrics(10, 1, 10, 0)),
      at(2_000, metrics(30, 3, 20, 10)),
    );
    expect(all).toEqual({
      requests: 20,
      failed: 2,
      requestsPerS: 10,
      generatedPerS: 100,
      // 10 below 0.1 s and 10 between 0.1 and 0.5: the middle is the border, nine tenths lie at 0.42.
      ttftMs: { p50: expect.closeTo(100, 6), p90: expect.closeTo(420, 6) },
      hitReal: 0.25,
      hitPredicted: 0.3,
    });
    expect(models.get("m")).toEqual(all);
    expect(workers.get("w1")).toEqual({ id: "w1", requests: 20, requestsPerS: 10 });
    expect(connections).toBe(7);
  });

  it("without a first look has sums and no rates", () => {
    const { all } = figuresBetween(undefined, at(5_000, metrics(4, 0, 4, 0)));
    expect(all).toMatchObject({ requests: 4, failed: 0, hitReal: 0.25 });
    expect(all.requestsPerS).toBeUndefined();
  });

  it("a router that was started anew counts from 0", () => {
    const { all } = figuresBetween(at(0, metrics(1_000, 0, 0, 0)), at(1_000, metrics(3, 0, 0, 0)));
    expect(all).toMatchObject({ requests: 3, requestsPerS: 3 });
    expect(all.ttftMs).toBeUndefined();
  });
});

describe("routerText()", () => {
  it("shows models, engines and what is wrong, without an engine's control characters", () => {
    const look = at(2_000, metrics(30, 3, 20, 10));
    const text = routerText(look.status, figuresBetween(at(0, metrics(10, 1, 10, 0)), look));
    expect(text).toMatch(/^r1 {2}policy ttft {2}10\.0 requests\/s/);
    expect(text).toMatch(/^m +1\/2 +3 +3 +10\.0\/s +2 +100 ms +420 ms +25 % +30 %/m);
    expect(text).toMatch(/^w1 +vllm +ready +3 +40 +10\.0\/s +80\/90/m);
    expect(text).toContain("! rate limits: redis is lost (local)");
    expect(text).not.toContain("\u001b");
    const json = routerJson(look.status, figuresBetween(undefined, look)) as { models: object[]; troubles: string[] };
    expect(json.models[0]).toMatchObject({ model: "m", requests: 30, queued: 2 });
  });

  it("tells who is there, and what is lost of the cluster", () => {
    const member = (kind: string) => ({ kind });
    const cluster = {
      source: "etcd http://e1:2379",
      ok: false,
      reason: "it does not answer",
      members: [member("agent"), member("agent"), member("kvcached"), member("router")],
      marks: { gpu1: "cordoned" },
    };
    const mirrors = [
      { kvcached: "http://a:7071", state: "live", reason: "" },
      { kvcached: "http://b:7071", state: "lost", reason: "no word" },
    ];
    const look = lookOf(0, JSON.stringify({ ...STATUS, cluster, sources: { mirrors } }), metrics(1, 0, 1, 0));
    const text = routerText(look.status, figuresBetween(undefined, look));
    expect(text).toContain(
      "cluster by etcd http://e1:2379  2 agents  1 kvcacheds  1 routers  1/2 copies of indexes live  gpu1 cordoned",
    );
    expect(text).toContain(
      "! etcd http://e1:2379 is lost (it does not answer): who is known stays known, nobody new is found",
    );
    expect(text).toContain("! kvcached http://b:7071 is lost (no word): what it told last counts");
    const json = routerJson(look.status, figuresBetween(undefined, look)) as { cluster: object };
    expect(json.cluster).toMatchObject({ ok: false, reason: "it does not answer" });
  });

  it("tells apart shared settings that count from those that this router does not understand", () => {
    const cluster = {
      source: "etcd http://e1:2379",
      ok: true,
      members: [],
      marks: {},
      shared: { "router.policy": "rubbish", "router.score_weights.kv": "0.5" },
      sharedProblems: [{ key: "router.policy", problem: "no such policy" }],
    };
    const look = lookOf(0, JSON.stringify({ ...STATUS, cluster }), metrics(1, 0, 1, 0));
    const text = routerText(look.status, figuresBetween(undefined, look));
    expect(text).toMatch(/^shared, and wins over files: router\.score_weights\.kv = 0\.5$/m);
    expect(text).toContain("! shared setting router.policy does not count: no such policy");
  });

  it("tells alarms of an engine's cache and the whole reason of one that is down, wherever its source is", () => {
    const alarm = { code: "TOKENIZER_MISMATCH", message: "prompts do not match. Name the right tokenizer", forMs: 9 };
    const source = { worker: "w1", alarms: [alarm] };
    const reason = `given up: it refuses its arguments (${"x".repeat(80)})`;
    const down = { ...STATUS.workers[0]!, id: "w9", state: "down", takesRequests: false, reason };
    for (const sources of [[source], { mirrors: [], sources: [source] }]) {
      const status = { ...STATUS, workers: [...STATUS.workers, down], sources };
      const look = lookOf(0, JSON.stringify(status), metrics(1, 0, 1, 0));
      const text = routerText(look.status, figuresBetween(undefined, look));
      expect(text).toContain("! w1: TOKENIZER_MISMATCH: prompts do not match. Name the right tokenizer");
      expect(text).toContain(`! w9 is down: ${reason}`);
      expect(text).toMatch(/^w9 .* down\* .*…\n\* takes no requests$/m);
    }
  });
});
