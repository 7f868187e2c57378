import { describe, expect, it } from "vitest";
import { overlayShared, SHARED_KEYS, type SharedTuning } from "./shared-keys.ts";

const base: SharedTuning = {
  policy: "ttft",
  scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
  admission: { maxQueue: 7, ttftSloMs: 800 },
};
const overlay = (values: Record<string, string>) => overlayShared(base, new Map(Object.entries(values)));

describe("overlayShared()", () => {
  it("overlayShared() lays each key over the file's value, and leaves the rest", () => {
    expect(overlay({}).tuning).toEqual(base);
    const { tuning, problems } = overlay({
      "router.policy": "weighted",
      "router.score_weights.power": "0.4",
      "router.admission.max_concurrent_per_replica": "3",
      "router.admission.queue_timeout": "2s",
      "router.admission.ttft_slo": "none",
    });
    expect(problems).toEqual([]);
    expect(tuning).toEqual({
      policy: "weighted",
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.4, capacity: 0.1 },
      admission: { maxQueue: 7, maxConcurrentPerReplica: 3, queueTimeoutMs: 2_000 },
    });
  });

  it("overlayShared() leaves out what cannot be used and says why", () => {
    const { tuning, problems } = overlay({
      "router.policy": "fastest",
      "router.score_weights.kv": "-1",
      "router.score_weights.load": "much",
      "router.admission.max_queue": "1.5",
      "router.admission.ttft_slo": "soon",
      "router.listen_http": "0.0.0.0:1",
      __proto__x: "1",
      "router.admission.queue_timeout": "5s",
    });
    expect(tuning).toEqual({ ...base, admission: { ...base.admission, queueTimeoutMs: 5_000 } });
    expect(problems.map(({ key }) => key)).toEqual([
      "router.policy",
      "router.score_weights.kv",
      "router.score_weights.load",
      "router.admission.max_queue",
      "router.admission.ttft_slo",
      "router.listen_http",
      "__proto__x",
    ]);
    expect(problems[5]?.problem).toMatch(/no key that routers share.*router.policy/);
    expect(problems.every(({ problem }) => problem.length > 10)).toBe(true);
  });

  it("overlayShared() takes a value for each shared key", () => {
    const value = (key: string): string => (/slo|timeout/.test(key) ? "1s" : key === "router.policy" ? "random" : "1");
    for (const key of SHARED_KEYS) {
      const { tuning, problems } = overlay({ [key]: value(key) });
      expect([key, problems]).toEqual([key, []]);
      expect(tuning).not.toEqual(base);
    }
  });
});
