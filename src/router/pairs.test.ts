import { describe, expect, it } from "vitest";
import type { HandOver } from "../core/hand-over.ts";
import type { Peering } from "../core/host-needs.ts";
import { sampleWorker } from "../core/worker.case.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { mismatch, partsOf } from "./pairs.ts";

const PEERING: Peering = {
  family: "vllm",
  transfer: "nixl",
  model: "org/m",
  dtype: "auto",
  tp: 1,
  blockTokens: 16,
  largerDecodeBlocks: true,
  otherTp: true,
  sameVersion: true,
  version: "0.32.0",
  address: "10.0.0.1",
  bindsAddress: true,
};

function worker(id: string, role: "prefill" | "decode", over: Partial<Peering> = {}): WorkerInfo {
  const handOver: HandOver = { protocol: "pull", peering: { ...PEERING, ...over } };
  return sampleWorker(id, { role, handOver });
}

describe("partsOf()", () => {
  it("pairs engines that agree, without a word", () => {
    const { pairings, unpaired, cautions } = partsOf([worker("p", "prefill"), worker("d", "decode")]);
    expect(pairings.map(({ prefill, decodes }) => [prefill.id, ...decodes.map(({ id }) => id)])).toEqual([["p", "d"]]);
    expect([unpaired.size, cautions.size]).toEqual([0, 0]);
  });

  it.each([
    ["tp", { tp: 2 }, /tp is 1 on the prefill engine p and 2 here/],
    ["larger blocks", { blockTokens: 32 }, /block size is 16 on the prefill engine p and 32 here/],
  ] as const)("pairs what may work, and says in what it differs: %s", (_name, over, said) => {
    const { pairings, unpaired, cautions } = partsOf([worker("p", "prefill"), worker("d", "decode", over)]);
    expect(pairings).toHaveLength(1);
    expect(unpaired.size).toBe(0);
    expect(cautions.get("d")).toMatch(said);
  });

  it.each([
    ["dtype", { dtype: "float16" }],
    ["model", { model: "org/other" }],
    ["version", { version: "0.31.0" }],
    ["connector", { transfer: "lmcache" }],
    ["smaller blocks", { blockTokens: 8 }],
    ["tp where the engine cannot", { tp: 2, otherTp: false }],
  ] as const)("leaves unpaired what cannot work: %s", (_name, over) => {
    const [p, d] = [worker("p", "prefill"), worker("d", "decode", over)];
    const { pairings, unpaired, cautions } = partsOf([p, d]);
    expect([pairings.length, cautions.size]).toEqual([0, 0]);
    expect([...unpaired.keys()].sort()).toEqual(["d", "p"]);
    expect(unpaired.get("d")).toContain(mismatch(p, d));
  });
});
