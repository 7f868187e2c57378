import { describe, expect, it } from "vitest";
import type { BlockStored, KvEventBatch } from "../core/kv-event.ts";
import { batchPieces } from "./batch-pieces.ts";

const stored = (first: number, count: number): BlockStored => ({
  type: "stored",
  names: Array.from({ length: count }, (_, i) => BigInt(first + i)),
  parent: first === 0 ? undefined : BigInt(first - 1),
  tokenIds: Uint32Array.from({ length: 2 * count }, (_, i) => 2 * first + i),
  blockTokens: 2,
  tier: "device",
  lora: "",
  extra: "",
  group: 0,
});
const batch = (events: KvEventBatch["events"]): KvEventBatch => ({ ts: 1, dpRank: 0, events });

describe("batchPieces()", () => {
  it("cuts a long chain, each part below the last block before it", () => {
    // Broke: one batch of 100,000 blocks held the event loop for as long as all of it took.
    const pieces = [...batchPieces(batch([stored(5, 7)]), 3)];
    const parts = pieces.flatMap(({ events }) => events as BlockStored[]);
    expect(parts).toEqual([stored(5, 3), stored(8, 3), stored(11, 1)]);
    expect(pieces).toHaveLength(3);
  });

  it("keeps order, and small events together", () => {
    const removed = { type: "removed" as const, names: [1n, 2n, 3n, 4n], tier: undefined, group: 0 };
    const events = [stored(0, 2), { type: "cleared" as const }, removed, stored(0, 1)];
    expect([...batchPieces(batch(events), 3)].map((piece) => piece.events)).toEqual([
      [stored(0, 2), { type: "cleared" }],
      [{ ...removed, names: [1n, 2n, 3n] }],
      [{ ...removed, names: [4n] }, stored(0, 1)],
    ]);
  });

  it("gives a small batch as it is, and nothing for an empty one", () => {
    expect([...batchPieces(batch([stored(0, 2)]))]).toEqual([batch([stored(0, 2)])]);
    expect([...batchPieces(batch([]))]).toEqual([]);
  });
});
