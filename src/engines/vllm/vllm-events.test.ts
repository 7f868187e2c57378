import { readFileSync } from "node:fs";
import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { isCgnError } from "../../core/errors.ts";
import { runEventCases } from "../events.case.ts";
import { decodeVllmEvents, decodeVllmEventsInSteps } from "./vllm-events.ts";

const lines = (name: string): Record<string, unknown>[] =>
  readFileSync(join(import.meta.dirname, "testdata", name), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const frames = (name: string): Uint8Array[] =>
  lines(name).map((line) => new Uint8Array(Buffer.from(String(line["payload_b64"]), "base64")));

const CAPTURES = [
  "sha256_cbor-seed0-int",
  "sha256_cbor-seed0-bytes",
  "sha256-noseed-int",
  "offload_lmcmp",
  "offload_lmcv1",
  "nixl-decode",
];
for (const capture of CAPTURES) runEventCases(`vllm ${capture}`, decodeVllmEvents, frames(`events-${capture}.jsonl`));

const one = (event: unknown): unknown => decodeVllmEvents(encode([1.5, [event], 0])).events[0];
const stored = { type: "BlockStored", block_hashes: [7], parent_block_hash: null, token_ids: [1, 2], block_size: 2 };

describe("decodeVllmEvents()", () => {
  it("decodeVllmEvents() agrees with the engine's own decoder on every captured event", () => {
    const decoded = lines("decoded-sha256_cbor-seed0-int.jsonl").map(
      (line) => line["batch"] as [number, Record<string, unknown>[], number],
    );
    const mine = frames("events-sha256_cbor-seed0-int.jsonl").map(decodeVllmEvents);
    expect(mine).toHaveLength(decoded.length);
    mine.forEach((batch, i) => {
      const [ts, events, rank] = decoded[i]!;
      expect([batch.ts, batch.dpRank, batch.events.length]).toEqual([ts, rank, events.length]);
      for (const [j, event] of batch.events.entries()) {
        const wire = events[j]!;
        expect(wire["type"]).toBe(
          { stored: "BlockStored", copied: "", removed: "BlockRemoved", cleared: "AllBlocksCleared" }[event.type],
        );
        if (event.type === "cleared") continue;
        const hashes = (wire["block_hashes"] as { u64: string }[]).map((h) => BigInt(h.u64));
        expect([...event.names]).toEqual(hashes);
        if (event.type === "stored") expect([...event.tokenIds]).toEqual(wire["token_ids"]);
      }
    });
  });

  it("decodeVllmEvents() names a block the same by bytes as by integer", () => {
    const names = (capture: string): unknown[] =>
      frames(`events-${capture}.jsonl`).flatMap((f) =>
        decodeVllmEvents(f).events.flatMap((e) => (e.type === "stored" ? [...e.names] : [])),
      );
    expect(names("sha256_cbor-seed0-bytes")).toEqual(names("sha256_cbor-seed0-int"));
  });

  it("decodeVllmEvents() reads cache_salt as the root's extra text", () => {
    const extras = frames("events-sha256_cbor-seed0-int.jsonl").flatMap((f) =>
      decodeVllmEvents(f).events.flatMap((e) => (e.type === "stored" ? [e.extra] : [])),
    );
    expect(new Set(extras)).toEqual(new Set(["", "tenant-a"]));
  });

  it("decodeVllmEvents() reads the array form of vLLM up to 0.23, however short", () => {
    const event = {
      type: "stored",
      names: BigUint64Array.of(7n),
      parent: 3n,
      blockTokens: 2,
      tier: "device",
      lora: "",
      extra: "",
      group: undefined,
    };
    expect(one(["BlockStored", [7], 3, [1, 2], 2])).toMatchObject(event);
    expect(
      one(["BlockStored", [7], 3, [1, 2], 2, null, "CPU", "l", [["s"]], 1, "full_attention", null, "later"]),
    ).toMatchObject({
      ...event,
      tier: "host",
      lora: "l",
      group: 1,
      reachesBack: true,
    });
    expect(one(["BlockRemoved", [7], "GPU"])).toEqual({
      type: "removed",
      names: BigUint64Array.of(7n),
      tier: "device",
      group: undefined,
    });
    expect(one(["AllBlocksCleared"])).toEqual({ type: "cleared" });
  });

  it("decodeVllmEvents() reads a batch that is a map", () => {
    const batch = decodeVllmEvents(encode({ ts: 2, events: [stored], data_parallel_rank: 3 }));
    expect([batch.ts, batch.dpRank, batch.events.length]).toEqual([2, 3, 1]);
  });

  it("decodeVllmEvents() takes a negative hash modulo 2^64", () => {
    expect(one({ ...stored, block_hashes: [-1] })).toMatchObject({ names: BigUint64Array.of((1n << 64n) - 1n) });
  });

  it("decodeVllmEvents() passes over unknown fields and unknown kinds of event", () => {
    expect(one({ ...stored, lookahead_token_ids: null, new_field: [1] })).toMatchObject({
      names: BigUint64Array.of(7n),
    });
    const unknown = [{ type: "BlockMoved" }, ["Later", 1], ["Later", [[], "x"], [1, -1]]];
    expect(decodeVllmEvents(encode([1, unknown])).events).toEqual([]);
  });

  it("decodeVllmEvents() takes a store without tokens for a copy, when it is of another tier", () => {
    const placeholder = { ...stored, token_ids: [], block_size: 0, group_idx: 1 };
    expect(one({ ...placeholder, medium: "CPU" })).toEqual({
      type: "copied",
      names: BigUint64Array.of(7n),
      tier: "host",
      group: 1,
    });
    expect(one({ ...placeholder, medium: "GPU" })).toBeUndefined();
  });

  it("decodeVllmEvents() tells which groups reach back to the prompt's start", () => {
    const reach = (kind: unknown) =>
      (one({ ...stored, kv_cache_spec_kind: kind }) as { reachesBack?: boolean }).reachesBack;
    expect([reach("full_attention"), reach("mla_attention"), reach("sliding_window"), reach("mamba")]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect([reach("unknown"), reach(null), reach(undefined)]).toEqual([undefined, undefined, undefined]);
  });

  it("decodeVllmEventsInSteps() reads a giant message in many small steps, to the same end", () => {
    const count = 100_000;
    const payload = encode([
      1.5,
      [
        {
          type: "BlockStored",
          block_hashes: Array.from({ length: count }, (_, i) => i),
          token_ids: Array.from({ length: 2 * count }, (_, i) => i),
          block_size: 2,
          unheard_of: Array.from({ length: count }, () => [[]]),
        },
      ],
    ]);
    const steps = decodeVllmEventsInSteps(payload);
    let taken = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) taken++;
    expect(taken).toBeGreaterThan(15);
    expect(step.value).toEqual(decodeVllmEvents(payload));
    expect(step.value.events[0]).toMatchObject({ blockTokens: 2, tokenIds: { length: 2 * count } });
  });

  it("decodeVllmEvents() leaves out blocks from the first image on, which text does not tell apart", () => {
    const three = { ...stored, block_hashes: [7, 8, 9], token_ids: [1, 2, 3, 4, 5, 6] };
    expect(one({ ...three, extra_keys: [null, [["mm-1", 0]], null] })).toMatchObject({
      names: BigUint64Array.of(7n),
      extra: "",
    });
    expect(one({ ...three, extra_keys: [[["mm-1", 0]], null, null] })).toMatchObject({ extra: '[["mm-1",0]]' });
    expect(one({ ...stored, parent_block_hash: 5, extra_keys: [[["mm-1", 0]]] })).toBeUndefined();
    // An adapter's requests, as 0.32.0 tells of them: its name is the first key.
    const tiny = { ...three, lora_name: "tiny" };
    expect(one({ ...tiny, extra_keys: [["tiny"], ["tiny"], ["tiny"]] })).toMatchObject({ lora: "tiny", extra: "" });
    expect(one({ ...tiny, extra_keys: [["tiny", "s"], ["tiny"], ["tiny"]] })).toMatchObject({
      lora: "tiny",
      extra: "s",
    });
    expect(one({ ...tiny, extra_keys: [["tiny", "tiny"]] })).toMatchObject({ lora: "tiny", extra: "tiny" });
    expect(one({ ...three, extra_keys: [[["cache_salt", "s"]], null, null] })).toMatchObject({
      extra: "s",
      names: BigUint64Array.of(7n, 8n, 9n),
    });
  });

  it.each([
    ["no list of events", [1, {}]],
    ["no time", ["x", []]],
    ["tokens that do not fill the blocks", [1, [{ ...stored, token_ids: [1] }]]],
    ["a negative token", [1, [{ ...stored, token_ids: [1, -2] }]]],
    ["a fractional block size", [1, [{ ...stored, block_size: 0.5 }]]],
    ["a short hash", [1, [{ ...stored, block_hashes: [new Uint8Array(4)] }]]],
    ["an event without a type", [1, [{ block_hashes: [1] }]]],
    ["a rank that is text", [1, [], "0"]],
  ])("decodeVllmEvents() refuses %s", (_, batch) => {
    expect(() => decodeVllmEvents(encode(batch))).toThrowError(/^Cannot read KV events of vLLM: /);
  });

  it("decodeVllmEvents() allocates nothing for lengths that the payload cannot hold", () => {
    const claim = new Uint8Array([0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x01, 0xff, 0xff, 0xff]);
    try {
      decodeVllmEvents(claim);
      expect.unreachable();
    } catch (e) {
      expect(isCgnError(e, "EVENTS_MALFORMED")).toBe(true);
      expect(String((e as Error).cause)).toContain("it claims more than it holds");
    }
  });
});
