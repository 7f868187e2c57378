import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findEngine } from "../engines/registry.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { byteVocabulary } from "../prompt/vocabulary.ts";
import { sglangLive, VLLM_RUNS, vllmRun } from "./testing/fixtures.ts";
import { fuzzFrames } from "./testing/fuzz-frames.ts";

const vllm = () =>
  VLLM_RUNS.flatMap((run) =>
    readFileSync(join(vllmRun(run), "frames.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => Buffer.from((JSON.parse(line) as { payload_b64: string }).payload_b64, "base64")),
  );

// A million of them: npm run bench -- fuzz.
describe("hostile frames", () => {
  it.each([
    ["vllm" as const, vllm()],
    ["sglang" as const, sglangLive().map(({ payload }) => payload)],
  ])("of %s throw nothing, and mark the source as bad with the reason", (kind, payloads) => {
    const index = createPrefixIndex({ capBytes: 2 ** 20, seed: 1 });
    const text = byteVocabulary(Array.from({ length: 60_000 }, (_, i) => `t${i}`));
    const fuzz = fuzzFrames({
      payloads,
      decode: findEngine(kind).decodeEvents!,
      vocabulary: (ids, n) => text.decodeBlocks(ids, n),
      index,
      seed: 7,
      now: () => 0,
    });
    const reasons = new Set<string>();
    let report = fuzz.next().value;
    for (let i = 0; i < 4_000; i++) {
      report = fuzz.next().value;
      if (report.state.at === "failed") reasons.add(report.state.detail);
    }
    expect(report.crashes).toEqual([]);
    expect(report.failures).toBeGreaterThan(0);
    for (const reason of reasons)
      expect(reason).toMatch(/^most of its messages make no sense \(the last: .+\); it is looked at/);
    expect(report.decoded).toBeGreaterThan(1_000);
    expect(report.malformed).toBeGreaterThan(500);
    expect(index.stats().bytes).toBeLessThanOrEqual(2 ** 20);
  });
});
