import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { BlockStored, KvEvent } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { applyEvents, type DecodeBlocks } from "./apply-events.ts";
import { EventShape } from "./event-shape.ts";
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
  const shape = new EventShape();
  const apply = (...events: KvEvent[]) => applyEvents(index, slot, { ts: 0, dpRank: 0, events }, decode, shape);
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
    expect(tokens("abcde")).toBe(0);
  });

  it("applyEvents() counts the group that reaches back to the start, whichever number it has and whenever it speaks", () => {
    const { apply, tokens } = setUp();
    const window = { group: 0, reachesBack: false };
    const full = { group: 2, reachesBack: true };
    apply(stored("abcdefgh", 1, window));
    expect(tokens("abcdefghi")).toBe(8);
    expect(apply(stored("abcd", 1, full))).toMatchObject({ stored: 1 });
    expect(tokens("abcdefghi")).toBe(4);
    // The window's blocks bear the same names.
    expect(
      apply({ type: "removed", names: [1n], tier: "device", group: 0 }, stored("efgh", 2, { ...window, parent: 1n })),
    ).toMatchObject({ otherGroups: 2, removed: 0, stored: 0 });
    expect(tokens("abcdefghi")).toBe(4);
    apply({ type: "removed", names: [1n], tier: "device", group: 2 });
    expect(tokens("abcdefghi")).toBe(0);
  });

  it("applyEvents() knows what an index knows that hears of the bounding group alone", () => {
    const event = fc.record({
      chain: fc.integer({ min: 0, max: 3 }),
      depth: fc.integer({ min: 0, max: 3 }),
      group: fc.constantFrom(0, 1, 2, undefined),
      remove: fc.boolean(),
    });
    const texts = ["aaaabbbbccccdddd", "aaaabbbbeeeeffff", "gggghhhhiiiijjjj", "gggghhhhkkkkllll"];
    const bounding = 1;
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (steps) => {
        const [all, alone] = [setUp(), setUp()];
        // The engine tells the groups' kinds with each store; the bounding one spoke first once.
        const first = stored("zzzz", 900, { group: bounding, reachesBack: true });
        for (const side of [all, alone]) side.apply(first);
        for (const { chain, depth, group, remove } of steps) {
          const text = texts[chain]!.slice(4 * depth, 4 * depth + 4);
          const name = (d: number) => (chain >> (d < 2 ? 1 : 0)) * (d < 2 ? 10 : 1) * 100 + d + 1;
          const one: KvEvent = remove
            ? { type: "removed", names: [BigInt(name(depth))], tier: "device", group }
            : stored(text, name(depth), {
                group,
                ...(group === undefined ? {} : { reachesBack: group === bounding }),
                ...(depth === 0 ? {} : { parent: BigInt(name(depth - 1)) }),
              });
          all.apply(one);
          if (group === undefined || group === bounding) alone.apply(one);
        }
        for (const text of texts) expect(all.tokens(`${text}.`)).toBe(alone.tokens(`${text}.`));
      }),
    );
  });

  it("applyEvents() cuts a connector's chunks into blocks of the device's size, and removes them whole", () => {
    const { apply, tokens } = setUp();
    const chunk = { tier: "host", group: undefined, blockTokens: 8 } as const;
    apply(stored("abcd", 1));
    apply(
      { ...stored("abcdefgh", 50, chunk), names: [50n] },
      { ...stored("ijklmnop", 51, { ...chunk, parent: 50n }), names: [51n] },
    );
    expect(tokens("abcdefghijklmnopq")).toBe(16);
    expect(tokens("abcdefgh.")).toBe(8);
    apply({ type: "removed", names: [51n], tier: "host", group: undefined });
    expect(tokens("abcdefghijklmnopq")).toBe(8);
    apply({ type: "removed", names: [50n], tier: "host", group: undefined });
    expect(tokens("abcdefghijklmnopq")).toBe(4);
  });

  it("applyEvents() counts the whole blocks of a chunk that is not full, and none that is smaller than a block", () => {
    const { apply, tokens } = setUp();
    const chunk = { tier: "host", group: undefined } as const;
    apply(stored("zzzz", 1));
    apply({ ...stored("abcdefghij", 50, { ...chunk, blockTokens: 10 }), names: [50n] });
    expect(tokens("abcdefghijk")).toBe(8);
    apply({ type: "removed", names: [50n], tier: "host", group: undefined });
    expect(tokens("abcdefghijk")).toBe(0);
    expect(apply({ ...stored("ab", 51, { ...chunk, blockTokens: 2 }), names: [51n] })).toMatchObject({ otherSizes: 1 });
  });

  it("applyEvents() counts blocks that a tier is told of by name alone, until it is told with tokens", () => {
    const { apply, tokens } = setUp();
    const copied = { type: "copied", names: [1n], tier: "host", group: 0 } as const;
    apply(stored("abcd", 1));
    expect(apply(copied)).toMatchObject({ copied: 1 });
    apply({ type: "removed", names: [1n], tier: "device", group: 0 });
    expect(tokens("abcde")).toBe(0);
    apply(stored("abcd", 1, { tier: "host" }));
    expect(apply(copied)).toMatchObject({ copied: 0 });
    expect(tokens("abcde")).toBe(4);
  });

  it("applyEvents() takes the device's block size, also when a connector spoke first", () => {
    const { apply, tokens } = setUp();
    const chunk = { tier: "host", group: undefined, blockTokens: 8 } as const;
    apply({ ...stored("abcdefgh", 50, chunk), names: [50n] });
    expect(tokens("abcdefghi")).toBe(8);
    // Blocks of two sizes cannot be compared: what was told in the other size is forgotten.
    apply(stored("abcd", 1));
    expect(tokens("abcdefghi")).toBe(4);
    apply({ ...stored("abcdefgh", 50, chunk), names: [50n] });
    expect(tokens("abcdefghi")).toBe(8);
  });
});
