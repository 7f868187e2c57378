import { describe, expect, it } from "vitest";
import { allPathsBut } from "../core/api-paths.ts";
import { Abilities, isMissing } from "./abilities.ts";
import { conversionOf } from "./convert/conversions.ts";
import { testWorker } from "./testing/test-router.ts";

const CHAT_ONLY = { lacks: allPathsBut(["/v1/chat/completions", "/v1/completions"]) };
const all = testWorker("all", "http://x");
const few = testWorker("few", "http://x", { traits: CHAT_ONLY, kind: "mlx" });

function abilities() {
  let now = 0;
  const clock = { now: () => now, wall: () => now, after: () => () => {} };
  return {
    it: new Abilities(clock),
    pass(ms: number) {
      now += ms;
    },
  };
}

describe("Abilities", () => {
  it("keeps workers that lack an endpoint out, and gives back the same list when none does", () => {
    const { it } = abilities();
    const both = [all, few];
    expect(it.able(both, "/v1/rerank")).toEqual([all]);
    expect(it.able(both, "/v1/chat/completions")).toBe(both);
    expect(it.able([few], "/v1/embeddings")).toEqual([]);
    expect(it.able(both, "/v1/nobody/knows")).toBe(both);
  });

  it("asks by another path of the same API, or for a chat completion, where the path itself is lacking", () => {
    const { it } = abilities();
    const other = testWorker("o", "http://x", { traits: { lacks: ["/rerank", "/v2/rerank"] } });
    expect(it.way(other, "/v2/rerank")).toEqual({ path: "/v1/rerank" });
    expect(it.way(other, "/v1/rerank")).toEqual({ path: "/v1/rerank" });
    expect(it.way(few, "/v1/messages")).toEqual({
      path: "/v1/chat/completions",
      convert: conversionOf("/v1/messages"),
    });
    expect(it.way(few, "/v1/messages/count_tokens")).toBeUndefined();
    expect(it.way(all, "/v1/messages")).toEqual({ path: "/v1/messages" });
  });

  it("knows a conversion that all need from one that some need", () => {
    const { it } = abilities();
    const group = (...ready: (typeof all)[]) => ({ model: "m", workers: ready, ready });
    expect(it.commonConversion(group(few), "/v1/messages")).toBe(conversionOf("/v1/messages"));
    expect(it.commonConversion(group(few, all), "/v1/messages")).toBeUndefined();
    expect(it.conversionFor([few, all], "/v1/messages")).toBe(conversionOf("/v1/messages"));
    expect(it.conversionFor([all], "/v1/messages")).toBeUndefined();
    expect(it.commonConversion(group(few), "/v1/rerank")).toBeUndefined();
  });

  it("believes what an engine answered until it is started anew, or for some minutes", () => {
    const { it, pass } = abilities();
    const body = Buffer.from('{"error": {"message": "Start it with `--embeddings`"}}');
    expect(it.learn(all, "/v1/embeddings", { body })).toBe(true);
    expect(it.learn(all, "/v1/embeddings", { body })).toBe(false);
    expect(it.able([all], "/v1/embeddings")).toEqual([]);
    const refusal = it.refusal({ model: "m", workers: [all], ready: [all] }, "/v1/embeddings");
    expect(refusal.code).toBe("NOT_SUPPORTED");
    expect(refusal.message).toContain("Start it with `--embeddings`");
    expect(it.able([{ ...all, epoch: 2 }], "/v1/embeddings")).toHaveLength(1);
    it.learn(all, "/v1/embeddings", undefined);
    pass(299_000);
    expect(it.able([all], "/v1/embeddings")).toEqual([]);
    pass(2_000);
    expect(it.able([all], "/v1/embeddings")).toHaveLength(1);
  });
});

describe("isMissing()", () => {
  const says = (status: number, body: string, path = "/v1/rerank") => isMissing(status, Buffer.from(body), path);

  it.each([
    [404, '{"detail":"Not Found"}'],
    [405, '{"detail":"Method Not Allowed"}'],
    [404, '{"error":{"message":"File Not Found","type":"not_found_error","code":404}}'],
    [404, "Not Found"],
    [404, ""],
    [501, '{"error":{"code":501,"message":"Start it with `--reranking`","type":"not_supported_error"}}'],
  ])("is true of %i %s", (status, body) => {
    expect(says(status, body)).toBe(true);
  });

  it.each([
    [404, '{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","code":404}}'],
    [404, '{"detail":"Response not found"}'],
    [501, '{"error":{"message":"best_of is not built","type":"NotImplementedError"}}'],
    [400, '{"detail":"Not Found"}'],
    [500, ""],
    [200, ""],
  ])("is false of %i %s: that is about the request", (status, body) => {
    expect(says(status, body)).toBe(false);
  });

  it("is false of paths that nobody knows, and of a 501 to what all can do", () => {
    expect(says(404, '{"detail":"Not Found"}', "/v1/nobody/knows")).toBe(false);
    expect(says(501, '{"error":{"type":"not_supported_error"}}', "/v1/chat/completions")).toBe(false);
  });
});
