import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { runEventCases } from "../events.case.ts";
import { decodeSglangEvents } from "./sglang-events.ts";
import encodings from "./testdata/kv_event_encodings.json" with { type: "json" };
import driven from "./testdata/kv_event_frames.json" with { type: "json" };
import live from "./testdata/live_kv_events.json" with { type: "json" };

const bytes = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
const frames = [...live, ...driven.frames].map((frame) => bytes(frame.payload_b64));

runEventCases("sglang", decodeSglangEvents, frames);

describe("decodeSglangEvents()", () => {
  it("reads every field of the driven frames", () => {
    const batches = driven.frames.map((frame) => decodeSglangEvents(bytes(frame.payload_b64)));
    expect(batches[0]?.events).toEqual([{ type: "cleared" }, { type: "cleared" }]);
    expect(batches[1]).toEqual({
      ts: 1795974716.8005676,
      dpRank: 0,
      events: [
        {
          type: "stored",
          names: BigUint64Array.of(-7118152853857507680n, -5037572900866013165n, -8052603281837994718n),
          parent: undefined,
          tokenIds: Uint32Array.from({ length: 12 }, (_, i) => 100 + i),
          blockTokens: 4,
          tier: "device",
          lora: "",
          extra: "",
          group: 0,
        },
      ],
    });
    const extended = batches[2]?.events[0];
    expect(extended?.type === "stored" && extended.parent).toBe(BigInt.asUintN(64, -8052603281837994718n));
    const salted = batches[4]?.events[0];
    expect(salted?.type === "stored" && salted.extra).toBe("tenant-a");
    expect(batches[6]?.events).toEqual([
      {
        type: "removed",
        names: BigUint64Array.of(5043830065565855565n, 8072568357098019437n),
        tier: "device",
        group: 0,
      },
    ]);
    expect(batches[7]?.events).toEqual([{ type: "cleared" }]);
  });

  it("reads media, adapter, salt and rank as the real encoder writes them", () => {
    const read = (name: keyof typeof encodings) => decodeSglangEvents(bytes(encodings[name].payload_b64));
    expect(read("cpu").dpRank).toBe(1);
    expect(read("cpu").events[0]).toMatchObject({
      tier: "host",
      names: BigUint64Array.of(2n ** 64n - 5n, 6n),
      blockTokens: 2,
    });
    expect(read("removed_cpu").events[0]).toEqual({
      type: "removed",
      names: BigUint64Array.of(2n ** 64n - 5n),
      tier: "host",
      group: 0,
    });
    expect(read("full").events[0]).toMatchObject({ tier: "shared", lora: "l", extra: "s", parent: 2n });
    expect(read("cleared").events).toEqual([{ type: "cleared" }]);
  });

  it("reads the array form of older versions, with and without a medium", () => {
    const batch = encode(
      [
        2.5,
        [
          ["BlockStored", [1n, -1n], null, [1, 2], 1, 7, "CPU_TIER1"],
          ["BlockRemoved", [3], "CPU_TIER2"],
          ["BlockRemoved", [3]],
          ["AllBlocksCleared"],
        ],
      ],
      { useBigInt64: true },
    );
    expect(decodeSglangEvents(batch)).toEqual({
      ts: 2.5,
      dpRank: undefined,
      events: [
        {
          type: "stored",
          names: BigUint64Array.of(1n, 2n ** 64n - 1n),
          parent: undefined,
          tokenIds: Uint32Array.of(1, 2),
          blockTokens: 1,
          tier: "host",
          lora: "7",
          extra: "",
          group: 0,
        },
        { type: "removed", names: BigUint64Array.of(3n), tier: "shared", group: 0 },
        { type: "removed", names: BigUint64Array.of(3n), tier: undefined, group: 0 },
        { type: "cleared" },
      ],
    });
  });

  it("refuses tokens that do not fill the blocks, and ids that are no 32-bit numbers", () => {
    const stored = (fields: object) =>
      encode([1, [{ type: "BlockStored", block_hashes: [1], token_ids: [1], block_size: 1, ...fields }]]);
    expect(decodeSglangEvents(stored({})).events).toHaveLength(1);
    for (const fields of [
      { token_ids: [1, 2] },
      { token_ids: [-1] },
      { token_ids: [2 ** 32] },
      { block_size: 0 },
      { block_hashes: ["x"] },
    ]) {
      expect(() => decodeSglangEvents(stored(fields))).toThrow(/Cannot read KV events of SGLang/);
    }
  });
});
