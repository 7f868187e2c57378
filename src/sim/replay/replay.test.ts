import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PROFILES } from "../model/profile.ts";
import { Ceiling } from "./bits.ts";
import { seededDice } from "./dice.ts";
import { engineLimits } from "./engine-setup.ts";
import { Replay } from "./replay.ts";
import type { ReplayOptions } from "./replay-options.ts";
import type { TraceRequest } from "./trace.ts";

const BLOCK = 64;

/** Chats whose turns go on from the turn before, behind a system prompt that all have. */
function chats(count: number, seed: number, gapMs = 300): readonly TraceRequest[] {
  const roll = seededDice(seed);
  const past: number[][] = [];
  let next = 1;
  return Array.from({ length: count }, (_, i) => {
    const before = roll() < 0.6 && past.length > 0 ? past[Math.floor(roll() * past.length)]! : [0];
    const blocks = [...before, ...Array.from({ length: 1 + Math.floor(roll() * 6) }, () => next++)];
    past.push(blocks);
    const promptTokens = blocks.length * BLOCK - Math.floor(roll() * (BLOCK - 1));
    return { at: i * gapMs * roll() * 2, promptTokens, outputTokens: 1 + Math.floor(roll() * 40), blocks };
  }).sort((a, b) => a.at - b.at);
}

function optionsOf(more: Partial<ReplayOptions> = {}, blocks = 400): ReplayOptions {
  const profile = more.profile ?? PROFILES["default"]!;
  const limits = engineLimits({
    profile,
    kvOffload: "none",
    hostGib: 0,
    diskGib: 0,
    blockTokens: BLOCK,
    blocks,
    maxBatchedTokens: 512,
    maxSequences: 16,
  });
  return {
    policy: "ttft",
    routers: 1,
    engines: 3,
    limits,
    profile,
    gpusPerEngine: 1,
    seed: 7,
    knowledge: "events",
    knowledgeDelayMs: 5,
    historyEntries: 8,
    lostEvents: 0,
    failures: [],
    admission: {},
    ...more,
  };
}

function play(requests: readonly TraceRequest[], options: ReplayOptions): Replay {
  const replay = new Replay(options);
  for (const request of requests) replay.arrive(request);
  replay.drain();
  return replay;
}

describe("Replay", () => {
  it("one engine without limits, whose work takes no time, hits exactly the ceiling", () => {
    const requests = chats(400, 3);
    const { measures } = play(requests, optionsOf({ engines: 1, profile: PROFILES["instant"]! }, 100_000));
    const ceiling = new Ceiling();
    for (const { blocks } of requests) ceiling.count(blocks);
    expect(ceiling.hitRate).toBeGreaterThan(0.3);
    expect(measures.foundBlocks / measures.blocks).toBe(ceiling.hitRate);
    expect(measures.ceiling.hitRate).toBe(ceiling.hitRate);
  });

  it("the same options give the same numbers, another seed of a drawn policy others", () => {
    const requests = chats(200, 5);
    const figures = (seed: number) =>
      play(requests, optionsOf({ policy: "random", seed })).measures.ttft.distribution();
    expect(figures(1)).toEqual(figures(1));
    expect(figures(1)).not.toEqual(figures(2));
  });

  it("ttft finds more of the prompts in the caches than round robin", () => {
    const requests = chats(500, 11);
    const hits = (policy: string) => play(requests, optionsOf({ policy })).measures.foundBlocks;
    expect(hits("ttft")).toBeGreaterThan(1.3 * hits("round_robin"));
  });

  it("knowing caches by events that come late, or not at all, costs hits", () => {
    const requests = chats(500, 13, 60);
    const found = (more: Partial<ReplayOptions>) => play(requests, optionsOf(more)).measures.foundBlocks;
    expect(found({ lostEvents: 1 })).toBeLessThan(0.8 * found({}));
    expect(found({ knowledgeDelayMs: 60_000 })).toBeLessThan(found({}));
  });

  it("what streams on an engine that fails is cut, what waits goes elsewhere, and it comes back empty", () => {
    const requests = chats(300, 17, 8);
    const { measures } = play(requests, optionsOf({ failures: [{ engine: 0, at: 600, forMs: 500 }] }));
    expect(measures.failed).toBeGreaterThan(0);
    expect(measures.retried).toBeGreaterThan(0);
    expect(measures.ttft.length + measures.failed).toBe(requests.length);
    expect(measures.engines[0]!.requests).toBeGreaterThan(0);
  });

  it("with all engines down requests are refused", () => {
    const requests = chats(50, 19, 10);
    const { measures } = play(requests, optionsOf({ engines: 1, failures: [{ engine: 0, at: 0, forMs: 1e6 }] }));
    expect(measures.rejected + measures.failed).toBe(requests.length);
  });

  it("prefill and decode apart: answers wait for the transfer, and every request is answered", () => {
    const requests = chats(200, 23, 100);
    const { measures } = play(
      requests,
      optionsOf({ engines: 4, disaggregated: { prefill: 2, decode: 2, colocateBelowTokens: 64 } }),
    );
    expect(measures.ttft.length).toBe(requests.length);
    expect(measures.meanParts().transfer).toBeGreaterThan(0);
  });

  it("no request is lost, and the parts of the time add up, whatever goes wrong", () => {
    const limits = fc.record({
      policy: fc.constantFrom("ttft", "weighted", "round_robin", "least_loaded", "prefix_hash", "random"),
      routers: fc.integer({ min: 1, max: 3 }),
      engines: fc.integer({ min: 2, max: 4 }),
      knowledge: fc.constantFrom("events" as const, "history" as const),
      lostEvents: fc.constantFrom(0, 0.3),
      shareBookingsMs: fc.constantFrom(undefined, 20),
      split: fc.boolean(),
      failAt: fc.constantFrom(undefined, 500, 4000),
      admission: fc.record({
        maxQueue: fc.constantFrom(undefined, 2),
        maxConcurrentPerEngine: fc.constantFrom(undefined, 1, 4),
        queueTimeoutMs: fc.constantFrom(undefined, 300),
        ttftSloMs: fc.constantFrom(undefined, 400),
      }),
      blocks: fc.constantFrom(30, 120),
      seed: fc.nat(1000),
    });
    fc.assert(
      fc.property(limits, ({ split, failAt, blocks, ...more }) => {
        const requests = chats(80, more.seed, 60);
        const replay = play(
          requests,
          optionsOf(
            {
              ...more,
              disaggregated: split ? { prefill: 1, decode: more.engines - 1, colocateBelowTokens: 128 } : undefined,
              failures: failAt === undefined ? [] : [{ engine: 1, at: failAt, forMs: 1500 }],
            },
            blocks,
          ),
        );
        const { measures: m } = replay;
        expect(m.ttft.length + m.rejected + m.failed).toBe(requests.length);
        expect(replay.inFlight).toBe(0);
        expect(replay.engines.every(({ inFlight }) => inFlight === 0)).toBe(true);
        const { overhead, queue, fetch, prefill, transfer, decode } = m.meanParts();
        expect(overhead + queue + fetch + prefill + transfer + decode).toBeCloseTo(m.e2e.mean(), 3);
      }),
      { numRuns: 60 },
    );
  });
});
