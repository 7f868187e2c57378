import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Legs } from "../disaggregation.ts";
import { sglangDisaggregation as protocol } from "./sglang-disagg.ts";

const seen = JSON.parse(
  readFileSync(new URL("../../../test/fixtures/sglang/pd_exchange.json", import.meta.url), "utf8"),
) as { readonly request: Record<string, unknown>; readonly stream: { readonly request: Record<string, unknown> } };

function legs(body: Readonly<Record<string, unknown>>, over: Partial<Legs> = {}): Legs {
  const prefill = { protocol: "bootstrap", host: "10.0.0.5", port: 20_016 } as const;
  return { prefill, decode: { protocol: "bootstrap" }, body, tryId: "t", room: (n) => 100 + n, ...over };
}

const parsed = (edits: Readonly<Record<string, string | undefined>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(edits).flatMap(([key, text]) => (text === undefined ? [] : [[key, JSON.parse(text)]])),
  );

describe("sglangDisaggregation", () => {
  it.each([seen.request, seen.stream.request])("makes the body that two real engines met with", (request) => {
    const { bootstrap_host: host, bootstrap_port: port, bootstrap_room: room, ...client } = request;
    const prefill = { protocol: "bootstrap", host: host as string, port: port as number } as const;
    const both = legs(client, { prefill, room: () => room as number });
    for (const edits of [protocol.prefillEdits(both), protocol.decodeEdits(both)]) {
      expect({ ...client, ...parsed(edits) }).toEqual(request);
    }
  });

  it.each([
    [{ n: 3 }, 3],
    [{ prompt: ["a", "b"] }, 2],
    [{ prompt: ["a"] }, 1],
    [{ prompt: ["a", "b"], n: 2 }, 4],
    [{ input_ids: [[1], [2], [3]] }, 3],
  ])("gives each answer of %j a room of its own, the same for both legs", (body, count) => {
    const both = legs(body);
    const prefill = parsed(protocol.prefillEdits(both));
    expect(prefill).toEqual({
      bootstrap_host: new Array(count).fill("10.0.0.5"),
      bootstrap_port: new Array(count).fill(20_016),
      bootstrap_room: Array.from({ length: count }, (_, n) => 100 + n),
    });
    expect(parsed(protocol.decodeEdits(both))).toEqual(prefill);
  });

  it.each([{}, { prompt: "a" }, { prompt: [1, 2, 3] }, { n: 1 }])("%j is one answer with one room", (body) => {
    expect(parsed(protocol.prefillEdits(legs(body)))).toEqual({
      bootstrap_host: "10.0.0.5",
      bootstrap_port: 20_016,
      bootstrap_room: 100,
    });
  });

  it("tells the decode which rank has the blocks, and nobody else's word of it", () => {
    const both = legs({ disagg_prefill_dp_rank: 7, bootstrap_room: 1 }, { prefillRank: 2 });
    expect(parsed(protocol.decodeEdits(both))).toMatchObject({ disagg_prefill_dp_rank: 2, bootstrap_room: 100 });
    expect(protocol.prefillEdits(both)).toMatchObject({ disagg_prefill_dp_rank: undefined });
    expect(protocol.ownMembers).toEqual(expect.arrayContaining(["bootstrap_room", "bootstrap_host", "bootstrap_port"]));
  });

  it("does not split what it cannot, or what asks for rooms without end", () => {
    expect(protocol.whyWhole("/v1/embeddings", {})).toContain("not split");
    expect(protocol.whyWhole("/v1/completions", { prompt: ["a"], n: 1e9 })).toContain("at most");
    expect(protocol.whyWhole("/v1/chat/completions", { n: 2, logprobs: true })).toBeUndefined();
  });
});
