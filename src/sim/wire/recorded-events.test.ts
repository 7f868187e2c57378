import { readFileSync } from "node:fs";
import { decode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { EngineModel, type ModelOutput } from "../model/engine-model.ts";
import { PROFILES } from "../model/profile.ts";
import { sglangNamer, vllmNamer } from "./hashes.ts";
import { encodeBatch } from "./kv-encode.ts";

const read = (name: string) => readFileSync(new URL(`../testdata/${name}`, import.meta.url), "utf8");
const lines = (name: string) =>
  read(name)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

interface RecordedChat {
  kind: string;
  body: { max_tokens: number; cache_salt?: string };
  prompt_token_ids: number[];
  completion_token_ids: number[];
  usage: { prompt_tokens_details: { cached_tokens: number; created_cache_tokens: number } };
  finish_reason: "stop" | "length";
}

function vllmModel(): EngineModel {
  // 24 blocks, of which vLLM keeps one as its null block.
  const limits = { blocks: 23, blockTokens: 32, maxBatchedTokens: 2048, maxSequences: 4, prefixCaching: true };
  return new EngineModel(
    { ...limits, generatedBlocks: "as-filled", publishesWhenIdle: false },
    PROFILES["instant"]!,
    vllmNamer("0"),
  );
}

/** Play the recorded requests against fresh models (a new one at each phase); batches as they would be on the wire. */
function playVllm() {
  const batches: Uint8Array[] = [];
  const uses: unknown[] = [];
  const wanted: unknown[] = [];
  let engine = vllmModel();
  let now = 0;
  const take = (outputs: readonly ModelOutput[]) => {
    for (const output of outputs) {
      if (output.type === "events") {
        const encoding = { dialect: "vllm", shape: "map", hashes: "int", blockTokens: 32 } as const;
        batches.push(encodeBatch(output.events, 0.5, encoding));
      } else if (output.type === "finished") uses.push(output.use);
    }
  };
  for (const row of lines("vllm/requests.jsonl") as RecordedChat[]) {
    now++;
    if (row.kind === "phase") engine = vllmModel();
    if (row.kind === "reset_prefix_cache") expect(engine.reset(now)).toBe(true);
    if (row.kind !== "chat") continue;
    const details = row.usage.prompt_tokens_details;
    wanted.push({ cachedTokens: details.cached_tokens, createdCacheTokens: details.created_cache_tokens });
    const [prompt, output] = [row.prompt_token_ids, row.completion_token_ids];
    const salt = row.body.cache_salt ?? "";
    engine.submit(now, { id: `r${now}`, prompt, output, finish: row.finish_reason, lora: "", salt });
    take(engine.advance(now));
  }
  return { batches, uses, wanted };
}

const decodeEvents = (payload: Uint8Array) => (decode(payload, { useBigInt64: true }) as unknown[])[1];

describe("the engine model on a recorded vLLM 0.32.0 run", () => {
  const played = playVllm();

  it("reports the cached and created tokens that vLLM reported, request for request", () => {
    expect(played.uses).toHaveLength(16);
    expect(played.uses).toEqual(played.wanted);
  });

  it("publishes the events that vLLM published, batch for batch and hash for hash", () => {
    const recorded = lines("vllm/frames.jsonl").map((f) => Buffer.from(f.payload_b64, "base64"));
    expect(played.batches.map(decodeEvents)).toEqual(recorded.map(decodeEvents));
  });
});

describe("SGLang's events", () => {
  it("encodeBatch() gives the bytes that SGLang 0.5.23 sent, for its first two batches", () => {
    const frames = JSON.parse(read("sglang/live_kv_events.json")).slice(0, 2);
    let parent: string | undefined;
    for (const frame of frames) {
      const [ts, [stored]] = frame.decoded;
      const name = sglangNamer(parent, stored.token_ids, []);
      const event = { type: "stored" as const, names: [name], parent, tokenIds: stored.token_ids, extra: [[]] };
      const encoding = { dialect: "sglang", shape: "map", hashes: "int", blockTokens: 16 } as const;
      const payload = encodeBatch([event], ts, encoding);
      expect(decode(payload)).toEqual(decode(Buffer.from(frame.payload_b64, "base64")));
      parent = name;
    }
  });

  it("encodeBatch() tells neighbouring removals at once, and each alone for vLLM", () => {
    const removed = ["aa".repeat(32), "bb".repeat(32)].map((name) => ({ type: "removed" as const, name }));
    const count = (dialect: "vllm" | "sglang") =>
      (decodeEvents(encodeBatch(removed, 1, { dialect, shape: "map", hashes: "int", blockTokens: 16 })) as unknown[])
        .length;
    expect([count("sglang"), count("vllm")]).toEqual([1, 2]);
  });
});
