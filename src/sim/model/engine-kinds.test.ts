import { describe, expect, it } from "vitest";
import { type EngineLimits, EngineModel, type ModelOutput } from "./engine-model.ts";
import { fastNamer } from "./namer.ts";
import type { EngineProfile } from "./profile.ts";
import { RankedEngine } from "./ranked-engine.ts";
import { TierStore } from "./tier-store.ts";

const LIMITS: EngineLimits = {
  blocks: 100,
  blockTokens: 4,
  maxBatchedTokens: 64,
  maxSequences: 4,
  prefixCaching: true,
  generatedBlocks: "as-filled",
  publishesWhenIdle: false,
  kvBytesPerToken: 250_000,
  reportsBlocks: true,
};

const PROFILE: EngineProfile = {
  name: "round",
  source: "this test",
  stepMs: 1,
  prefillMsPerToken: 1,
  decodeMsPerSequence: 1,
  contextMsPerToken: 0,
};

/** One request after the other; each waits for the one before it. */
class Player {
  readonly engine: EngineModel;
  now = 0;
  #serial = 0;

  constructor(limits: Partial<EngineLimits>, profile = PROFILE) {
    this.engine = new EngineModel({ ...LIMITS, ...limits }, profile, fastNamer);
  }

  /** @returns all that came of it */
  ask(
    blocks: readonly number[],
    more: { tail?: number; outputTokens?: number; hold?: boolean; transfer?: boolean } = {},
  ) {
    const { tail = 1, outputTokens = 1, ...rest } = more;
    const promptTokens = blocks.length * LIMITS.blockTokens + tail;
    this.engine.submit(this.now, { id: `r${this.#serial++}`, blocks, promptTokens, outputTokens, ...rest });
    return this.drain();
  }

  drain(until = Number.POSITIVE_INFINITY): ModelOutput[] {
    const outputs: ModelOutput[] = [...this.engine.advance(this.now)];
    while (this.engine.nextAt !== undefined && this.engine.nextAt <= until) {
      this.now = this.engine.nextAt;
      outputs.push(...this.engine.advance(this.now));
    }
    return outputs;
  }
}

const cached = (outputs: readonly ModelOutput[]) => outputs.find((o) => o.type === "finished")?.use.cachedTokens;
const removed = (outputs: readonly ModelOutput[]) => outputs.flatMap((o) => (o.type === "blocks" ? o.removed : []));
const timing = (outputs: readonly ModelOutput[]) => outputs.find((o) => o.type === "finished")!.timing;

describe("eviction", () => {
  it("vLLM loses single blocks, of the least recently released sequence the deepest first", () => {
    const player = new Player({ blocks: 8 });
    player.ask([1, 2, 3]);
    player.ask([11, 12]);
    // 8 blocks: 5 named ones, 3 empty; four are needed.
    expect(removed(player.ask([21, 22, 23]))).toEqual([3]);
    expect(cached(player.ask([1, 2]))).toBe(8);
  });

  it("SGLang loses the least recently used leaf as a whole, and what lies below a shared prefix before the prefix", () => {
    const player = new Player({ blocks: 8, eviction: "sglang" });
    player.ask([1, 2, 3]);
    player.ask([1, 2, 4]);
    expect(player.engine.cachedBlocks).toBe(4);
    player.ask([1, 2, 3]);
    // Five blocks are needed, four are empty: the leaf [4] was used longest ago.
    expect(removed(player.ask([21, 22, 23, 24]))).toEqual([4]);
    expect(removed(player.ask([31]))).toEqual([3]);
    expect(removed(player.ask([41, 42, 43]))).toEqual([1, 2, 21, 22, 23, 24]);
  });

  it("of two like prompts in one step SGLang computes both and keeps one; vLLM finds the first one's blocks at once", () => {
    for (const [eviction, computed] of [["sglang", 1 + 13 + 13] as const, ["vllm", 1 + 13 + 1] as const]) {
      const player = new Player({ eviction });
      player.engine.submit(0, { id: "first", blocks: [], promptTokens: 1, outputTokens: 1 });
      for (const id of ["a", "b"]) {
        player.engine.submit(0, { id, blocks: [1, 2, 3], promptTokens: 13, outputTokens: 2 });
      }
      player.drain();
      expect([player.engine.cachedBlocks, player.engine.counters.computedTokens], eviction).toEqual([3, computed]);
    }
  });

  it("llama.cpp goes on in the slot that has most of the prompt, and brings back what had to leave from its store", () => {
    const slots = { storeTokens: 1000, emptiesFree: false };
    const player = new Player({ eviction: "llama_cpp", maxSequences: 2, slots });
    const one = [1, 2, 3, 4, 5];
    player.ask(one);
    expect(cached(player.ask([...one, 6]))).toBe(20);
    for (const base of [100, 200, 300]) expect(cached(player.ask([base, base + 1, base + 2, base + 3]))).toBe(0);
    expect(cached(player.ask(one))).toBe(20);
    const bare = new Player({ eviction: "llama_cpp", maxSequences: 2, slots: { ...slots, storeTokens: 0 } });
    for (const base of [1, 100, 200]) bare.ask([base, base + 1, base + 2, base + 3]);
    expect(cached(bare.ask([1, 2, 3, 4]))).toBe(0);
  });

  it("llama.cpp copies what lies in free slots into its store when a request starts (seen: an older turn came back)", () => {
    const ends = [false, true].map((savesFree) => {
      const slots = { storeTokens: 1000, emptiesFree: false, savesFree };
      const player = new Player({ eviction: "llama_cpp", maxSequences: 2, slots });
      player.ask([1, 2, 3, 4]);
      player.ask([11, 12, 13, 14]);
      player.ask([1, 2, 3, 8, 9]);
      player.ask([11, 12, 13, 14, 15]);
      return cached(player.ask([21, 22, 23, 24])) === 0 ? cached(player.ask([1, 2, 3, 4, 5])) : undefined;
    });
    expect(ends).toEqual([12, 16]);
  });

  it("llama.cpp keeps tokens, not blocks: an identical prompt has all but its last token", () => {
    const limits = { ...LIMITS, blockTokens: 1, blocks: 400, eviction: "llama_cpp" } as const;
    const engine = new EngineModel(limits, PROFILE, fastNamer);
    const prompt = Array.from({ length: 30 }, (_, i) => i);
    const use = ["a", "b"].map((id, i) => {
      engine.submit(i * 1000, { id, prompt, output: [7, 8], finish: "stop", lora: "", salt: "" });
      return cached(engine.advance(i * 1000 + 999));
    });
    expect(use).toEqual([0, 29]);
  });
});

describe("tiers", () => {
  /** A block is a megabyte: 1 ms at 1 GB/s. */
  const HOST = { name: "host", blocks: 50, gbPerS: 1, latencyMs: 3 } as const;

  it("bring back what the device lost, and say how long that took", () => {
    const player = new Player({ blocks: 6, tiers: [HOST] });
    player.ask([1, 2, 3, 4]);
    player.ask([11, 12, 13, 14]);
    const outputs = player.ask([1, 2, 3, 4]);
    const use = outputs.find((o) => o.type === "finished")!.use;
    expect(use.cachedTokens).toBe(16);
    const fromHost = use.byTier?.host ?? 0;
    expect(fromHost).toBeGreaterThan(0);
    expect(timing(outputs).fetchMs).toBeCloseTo(3 + fromHost / 4);
    expect(player.engine.counters.tierHitTokens).toBe(fromHost);
  });

  it("hand down what does not fit, the least recently used first", () => {
    const player = new Player({
      blocks: 6,
      tiers: [
        { ...HOST, blocks: 4 },
        { ...HOST, name: "disk", blocks: 50 },
      ],
    });
    for (const base of [0, 10, 20]) player.ask([base + 1, base + 2, base + 3, base + 4]);
    expect(player.engine.tierBlocks).toEqual({ host: 4, disk: 8 });
    expect(player.ask([1, 2, 3, 4]).find((o) => o.type === "finished")?.use.byTier).toEqual({ disk: 16 });
  });

  it("are written when their policy says so", () => {
    const sizes = (["through", "reused", "evicted"] as const).map((write) => {
      const player = new Player({ blocks: 12, tiers: [{ ...HOST, write }] });
      const after = [
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        [11, 12, 13, 14, 15, 16, 17, 18],
      ].map((blocks) => {
        player.ask(blocks);
        return player.engine.tierBlocks.host;
      });
      return [write, ...after];
    });
    expect(sizes).toEqual([
      ["through", 4, 5, 13],
      ["reused", 0, 4, 4],
      ["evicted", 0, 0, 2],
    ]);
  });

  it("of one store are shared by engines", () => {
    const shared = new TierStore(50);
    const tiers = [{ ...HOST, name: "shared", shared } as const];
    new Player({ tiers }).ask([1, 2, 3]);
    expect(cached(new Player({ tiers }).ask([1, 2, 3]))).toBe(12);
  });

  it("that steps wait for make all wait", () => {
    const first = [true, false].map((blocksStep) => {
      const player = new Player({ blocks: 12, tiers: [{ ...HOST, latencyMs: 100, blocksStep }] });
      player.ask([1, 2, 3, 4]);
      player.ask([11, 12, 13, 14, 15, 16, 17, 18, 19]);
      player.engine.submit(player.now, { id: "other", blocks: [90], promptTokens: 5, outputTokens: 1 });
      player.engine.submit(player.now, { id: "reads", blocks: [1, 2, 3, 4], promptTokens: 17, outputTokens: 1 });
      player.engine.submit(player.now, { id: "third", blocks: [80], promptTokens: 5, outputTokens: 1 });
      const done = player.drain().flatMap((o) => (o.type === "finished" ? [o.id] : []));
      return done;
    });
    expect(first).toEqual([
      ["other", "reads", "third"],
      ["other", "third", "reads"],
    ]);
  });
});

describe("prefill → decode", () => {
  it("the prefill's blocks stay until they are released, the decode reads all but the last token", () => {
    const prefill = new Player({ role: "prefill", holdMs: 1000 });
    prefill.engine.submit(0, { id: "p", blocks: [1, 2, 3], promptTokens: 13, outputTokens: 1, hold: true });
    prefill.drain(100);
    expect([prefill.engine.usedBlocks, prefill.engine.holds("p")]).toEqual([4, true]);
    const decode = new Player({ role: "decode", transferGbPerS: 1, transferLatencyMs: 2 });
    const outputs = decode.ask([1, 2, 3], { outputTokens: 3, transfer: true });
    expect(outputs.map((o) => o.type)).toEqual(["transferred", "blocks", "first", "finished"]);
    expect(timing(outputs)).toMatchObject({ transferMs: 2 + 3, prefillMs: 2, queueMs: 0, fetchMs: 0 });
    expect(outputs.find((o) => o.type === "first")?.use).toMatchObject({ cachedTokens: 0, transferredTokens: 12 });
    prefill.engine.release(200, "p");
    expect(prefill.engine.usedBlocks).toBe(0);
    expect(prefill.drain().filter((o) => o.type === "expired")).toEqual([]);
  });

  it("what nobody reads is given up in time", () => {
    const player = new Player({ holdMs: 1000 });
    const outputs = player.ask([1, 2, 3], { hold: true });
    expect(outputs.at(-1)).toEqual({ type: "expired", at: 14 + 1000, id: "r0" });
    expect(player.engine.usedBlocks).toBe(0);
  });

  it("the decode reads only what it has not", () => {
    const player = new Player({ transferGbPerS: 1, transferLatencyMs: 2 });
    player.ask([1, 2, 3], { transfer: true });
    const use = player.ask([1, 2, 3, 4], { transfer: true }).find((o) => o.type === "first")?.use;
    expect(use).toMatchObject({ cachedTokens: 12, transferredTokens: 4 });
  });
});

describe("speculative decoding", () => {
  it("gives 1 + a + a² + … tokens a step", () => {
    const player = new Player({ speculative: { acceptance: 0.5, tokens: 2 } }, { ...PROFILE, prefillMsPerToken: 0 });
    const outputs = player.ask([], { outputTokens: 1 + 175 });
    // 175 tokens at 1.75 a step, 2 ms each; the first one takes 1 ms.
    expect(outputs.at(-1)?.at).toBe(1 + 200);
    expect(player.engine.counters.generatedTokens).toBe(176);
  });
});

describe("batching", () => {
  it("`prefill-first` lets answers stand still while prompts are computed", () => {
    const longest = (["mixed", "prefill-first"] as const).map((batching) => {
      const player = new Player({ batching, maxBatchedTokens: 16 });
      player.engine.submit(0, { id: "a", blocks: [], promptTokens: 1, outputTokens: 60 });
      player.engine.submit(10, { id: "b", blocks: [1, 2, 3, 4, 5, 6, 7, 8], promptTokens: 33, outputTokens: 1 });
      player.drain();
      return player.engine.gaps.percentileMs(1);
    });
    expect(longest[0]).toBeLessThan(19);
    expect(longest[1]).toBeGreaterThan(35);
  });
});

describe("RankedEngine", () => {
  it("gives each rank a cache of its own, and a request without a rank to the least busy", () => {
    const engine = new RankedEngine({ ...LIMITS, dpRanks: 2 }, PROFILE, fastNamer);
    const request = (id: string) => ({ id, blocks: [1, 2, 3], promptTokens: 13, outputTokens: 2 });
    expect([engine.submit(0, request("a")), engine.submit(0, request("b"))]).toEqual([0, 1]);
    expect(() => engine.submit(0, request("a"), 1)).toThrow(RangeError);
    expect(() => engine.submit(0, request("c"), 2)).toThrow(RangeError);
    const outputs = [];
    while (engine.nextAt !== undefined) outputs.push(...engine.advance(engine.nextAt));
    const ends = outputs.filter((o) => o.type === "finished");
    expect(ends.map(({ id, rank, use }) => [id, rank, use.cachedTokens])).toEqual([
      ["a", 0, 0],
      ["b", 1, 0],
    ]);
    expect(engine.submit(100, request("a"), 1)).toBe(1);
    const again = engine.advance(200).find((o) => o.type === "finished");
    expect([again?.rank, again?.use.cachedTokens]).toEqual([1, 12]);
  });
});
