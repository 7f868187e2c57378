import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { byteVocabulary } from "../prompt/vocabulary.ts";
import { type AppliedChange, AppliedIndex } from "./applied-index.ts";

const W = workerId("w");
const TEXT = byteVocabulary();
const decode = (ids: Uint32Array, n: number) => TEXT.decodeBlocks(ids, n);

function chain(names: readonly bigint[], text: string, parent?: bigint): KvEventBatch {
  const stored = {
    type: "stored" as const,
    names,
    parent,
    tokenIds: Uint32Array.from(new TextEncoder().encode(text)),
    blockTokens: text.length / names.length,
    tier: "device" as const,
    lora: "",
    extra: "",
    group: 0,
  };
  return { ts: 1, dpRank: undefined, events: [stored] };
}

function listened() {
  const index = new AppliedIndex(createPrefixIndex({ capBytes: 2 ** 20, seed: 1 }));
  const heard: AppliedChange[] = [];
  const stop = index.onApplied((worker, change) => {
    expect(worker.id).toBe(W);
    heard.push(change);
  });
  return { index, heard, stop };
}

describe("AppliedIndex", () => {
  it("tells of what was stored with its bytes and token ids, then of what was removed, cleared and dropped", () => {
    const { index, heard } = listened();
    const slot = index.addWorker(W);
    applyEvents(index, slot, chain([1n, 2n], "abcdefgh"), decode);
    index.remove(slot, [2n], "device");
    applyEvents(index, slot, { ts: 2, dpRank: undefined, events: [{ type: "cleared" }] }, decode);
    index.dropWorker(slot);
    expect(heard.map((change) => change.type)).toEqual(["added", "stored", "removed", "cleared", "dropped"]);
    expect(heard[1]).toMatchObject({
      blocks: { root: "", parent: undefined, names: [1n, 2n], blockTokens: 4, tier: "device" },
      tokenIds: Uint32Array.from([97, 98, 99, 100, 101, 102, 103, 104]),
    });
  });

  it("tells nothing of blocks that found no place", () => {
    const { index, heard } = listened();
    const slot = index.addWorker(W);
    applyEvents(index, slot, chain([2n], "efgh", 1n), decode);
    expect(heard.map((change) => change.type)).toEqual(["added"]);
  });

  it("tells nothing any more once the listener has left", () => {
    const { index, heard, stop } = listened();
    stop();
    index.dropWorker(index.addWorker(W));
    expect(heard).toEqual([]);
  });

  it("shows the change in the index to who hears of it", () => {
    const { index } = listened();
    const slot = index.addWorker(W);
    let blocks = 0;
    index.onApplied((_, change) => {
      if (change.type === "stored") blocks = index.index.stats().blocks;
    });
    applyEvents(index, slot, chain([1n, 2n], "abcdefgh"), decode);
    expect(blocks).toBe(2);
  });
});
