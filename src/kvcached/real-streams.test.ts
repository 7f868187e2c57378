import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { findEngine } from "../engines/registry.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import { EventShape } from "../kvindex/event-shape.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { initialSource, type SourceInput } from "./source-state.ts";
import { stepSource } from "./source-step.ts";
import { SMOLLM2, sglangLive, vllmRun } from "./testing/fixtures.ts";
import { createVocabularies } from "./vocabularies.ts";

const { vocabulary, renderer } = await createVocabularies({}).of({ models: ["smol"], tokenizer: { dir: SMOLLM2 } });

interface Frame {
  readonly seq: number;
  readonly payload: Uint8Array;
}

const lines = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

function framesOf(capture: string, file: string): Frame[] {
  return lines(join(vllmRun(capture), file)).map((row) => ({
    seq: Number(row["seq"]),
    payload: Buffer.from(String(row["payload_b64"]), "base64"),
  }));
}

/** What an engine's frames leave in an index, and everything that was odd about them. */
function applied(kind: "vllm" | "sglang", frames: readonly Frame[]) {
  const index = createPrefixIndex({ capBytes: 2 ** 24, seed: 1 });
  const slot = index.addWorker(workerId("w"));
  const shape = new EventShape(32);
  const decode = findEngine(kind).decodeEvents!;
  const odd = { orphaned: 0, undecodable: 0, otherSizes: 0, clears: 0 };
  const total = { stored: 0, removed: 0 };
  let state = initialSource(false, 0);
  const feed = (input: SourceInput) => {
    const [next, ...effects] = stepSource(state, input, 0);
    state = next;
    for (const effect of effects) {
      if (effect.do === "clear") odd.clears++;
      if (effect.do !== "apply") continue;
      const one = applyEvents(index, slot, effect.batch, (ids, n) => vocabulary.decodeBlocks(ids, n), shape);
      odd.orphaned += one.orphaned;
      odd.undecodable += one.undecodable;
      odd.otherSizes += one.otherSizes;
      total.stored += one.stored;
      total.removed += one.removed;
    }
  };
  feed({ type: "connected" });
  for (const { seq, payload } of frames) feed({ type: "live", seq, batch: decode(payload) });
  const tokens = (messages: unknown) => {
    const prompt = renderer?.render({ messages });
    if (prompt === undefined || !("bytes" in prompt)) throw new Error("not rendered");
    return index.match("", prompt.bytes)[0]?.tokens ?? 0;
  };
  return { odd, total, counts: state.counts, stats: index.stats(), tokens };
}

const NOTHING_ODD = { orphaned: 0, undecodable: 0, otherSizes: 0, clears: 0 };

describe.each(["nixl_pd", "pdconnector_pd", "pdconnector_both_sides", "multi_nixl_lmcachemp_pd"])(
  "prefill and decode of %s",
  (capture) => {
    const requests = lines(join(vllmRun(capture), "requests.jsonl"));
    const asked = (name: string) => requests.find((row) => row["name"] === name)?.["messages"];

    it.each(["prefill", "decode"])("%s's events apply without a complaint", (side) => {
      const { odd, total, counts, stats } = applied("vllm", framesOf(capture, `frames_${side}.jsonl`));
      expect(odd).toEqual(NOTHING_ODD);
      expect(counts).toMatchObject({ malformed: 0, gaps: 0, duplicates: 0 });
      expect(total.stored).toBeGreaterThan(0);
      expect(stats).toMatchObject({ orphanBlocks: 0, unknownRemovals: 0 });
    });

    it("credits the decode worker with the prompts that it pulled", () => {
      const frames = framesOf(capture, "frames_decode.jsonl");
      const first = applied("vllm", frames.slice(0, 1));
      // 102 tokens in blocks of 32, the last token always computed.
      expect(first.tokens(asked("pd1"))).toBe(96);
      expect(first.tokens(asked("pd3_followup"))).toBe(64);
    });
  },
);

describe("offload", () => {
  it.each(["offload_lmcmp", "offload_lmcv1"])("%s: events apply without a complaint", (capture) => {
    const { odd, total, stats } = applied("vllm", framesOf(capture, "frames.jsonl"));
    expect(odd).toEqual(NOTHING_ODD);
    expect(total.removed).toBeGreaterThan(0);
    expect(stats).toMatchObject({ orphanBlocks: 0, unknownRemovals: 0 });
  });
});

describe("SGLang", () => {
  it("a live server's events apply without a complaint", () => {
    const { odd, total, counts, stats } = applied("sglang", sglangLive());
    expect(odd).toEqual(NOTHING_ODD);
    expect(total.stored).toBeGreaterThan(0);
    expect(counts.malformed).toBe(0);
    expect(stats.orphanBlocks).toBe(0);
  });
});
