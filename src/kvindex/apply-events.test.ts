import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { BlockStored, KvEvent } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { applyEvents, type DecodeBlocks } from "./apply-events.ts";
import { createPrefixIndex } from "./run-index.ts";

/** Byte level: id = byte. Ids from 256 on are not in the vocabulary. */
const decode: DecodeBlocks = (ids, blockTokens) => {
  if (ids.some((id) => id > 255)) return undefined;
  const ends = Uint32Array.from({ length: ids.length / blockTokens }, (_, i) => (i + 1) * blockTokens);
  return { bytes: Uint8Array.from(ids), ends };
};

const encoder = new TextEncoder();

function stored(text: string, first: number, more: Partial<BlockStored> = {}): BlockStored {
  const tokenIds = Uint32Array.from(encoder.encode(text));
  const names = Array.from({ length: tokenIds.length / 4 }, (_, i) => BigInt(first + i));
  const base = {
    type: "stored",
    parent: undefined,
    blockTokens: 4,
    tier: "device",
    lora: "",
    extra: "",
    group: 0,
  } as const;
  return { ...base, names, tokenIds, ...more };
}

function setUp() {
  const index = createPrefixIndex({ capBytes: 1 << 24, seed: 1 });
  const slot = index.addWorker(workerId("a"));
  const apply = (...events: KvEvent[]) => applyEvents(index, slot, { ts: 0, dpRank: 0, events }, decode);
  const tokens = (text: string, root = "") => index.match(root, encoder.encode(text))[0]?.tokens ?? 0;
  return { apply, tokens };
}

describe("applyEvents()", () => {
  it("applyEvents() applies a batch in order", () => {
    const { apply, tokens } = setUp();
    const removed = { type: "removed", names: [2n], tier: undefined, group: 0 } as const;
    expect(apply(stored("abcdefgh", 1), removed, stored("efgh", 2, { parent: 1n }))).toMatchObject({
      stored: 3,
      removed: 1,
      blockTokens: 4,
    });
    expect(tokens("abcdefghi")).toBe(8);
    expect(apply({ type: "cleared" }).cleared).toBe(1);
    expect(tokens("abcdefghi")).toBe(0);
  });

  it("applyEvents() keeps a chain under its parent's root, whatever the later events carry", () => {
    const { apply, tokens } = setUp();
    apply(stored("abcd", 1, { extra: "tenant-a" }), stored("efgh", 2, { parent: 1n }));
    expect(tokens("abcdefghi")).toBe(0);
    expect(tokens("abcdefghi", rootKey("", "tenant-a"))).toBe(8);
    apply(stored("abcd", 9, { lora: "adapter" }));
    expect(tokens("abcdefghi", rootKey("adapter", ""))).toBe(4);
  });

  it("applyEvents() counts what it cannot place", () => {
    const { apply, tokens } = setUp();
    expect(apply(stored("abcd", 1, { parent: 77n }))).toMatchObject({ orphaned: 1, stored: 0 });
    expect(apply(stored("abcd", 1, { tokenIds: Uint32Array.of(1, 2, 3, 256) }))).toMatchObject({ undecodable: 1 });
    expect(
      apply(stored("abcd", 1, { group: 1 }), { type: "removed", names: [1n], tier: "device", group: 1 }),
    ).toMatchObject({
      otherGroups: 2,
    });
    expect(tokens("abcde")).toBe(0);
  });
});
