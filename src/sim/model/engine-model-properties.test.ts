import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type EngineLimits,
  EngineModel,
  type KeyedRequest,
  type ModelOutput,
  type TierLimits,
} from "./engine-model.ts";
import { fastNamer } from "./namer.ts";
import type { EngineProfile } from "./profile.ts";

const LIMITS: EngineLimits = {
  blocks: 24,
  blockTokens: 4,
  maxBatchedTokens: 16,
  maxSequences: 4,
  prefixCaching: true,
  generatedBlocks: "as-filled",
  publishesWhenIdle: false,
  kvBytesPerToken: 1e6,
  reportsBlocks: true,
  holdMs: 500,
};

/** Powers of two: sums of times are exact. */
const PROFILE: EngineProfile = {
  name: "round",
  source: "this test",
  stepMs: 1,
  prefillMsPerToken: 0.5,
  prefillMsPerPair: 1 / 128,
  decodeMsPerSequence: 0.25,
  contextMsPerToken: 0.125,
};

const HOST: TierLimits = { name: "host", blocks: 30, gbPerS: 8, latencyMs: 1 };
const DISK: TierLimits = { name: "disk", blocks: 60, gbPerS: 2, latencyMs: 4 };

const ENGINES: Readonly<Record<string, Partial<EngineLimits>>> = {
  vllm: {},
  sglang: { eviction: "sglang", generatedBlocks: "at-finish", batching: "prefill-first" },
  llama_cpp: { eviction: "llama_cpp", slots: { storeTokens: 60, emptiesFree: true } },
  "vllm with host and disk": { tiers: [HOST, DISK] },
  "sglang writing back": { eviction: "sglang", tiers: [{ ...HOST, write: "evicted" }] },
  "vllm whose steps wait for reads": { tiers: [{ ...HOST, blocksStep: true }] },
  "vllm with drafts": { speculative: { acceptance: 0.7, tokens: 3 } },
};

interface Wanted {
  readonly gap: number;
  /** Which family of prompts, and how many of its blocks. */
  readonly family: number;
  readonly blocks: number;
  readonly tail: number;
  readonly output: number;
  readonly abortAfter: number | undefined;
  readonly hold: boolean;
  readonly transfer: boolean;
}

const anyWanted: fc.Arbitrary<Wanted> = fc.record({
  gap: fc.nat(20),
  family: fc.nat(3),
  blocks: fc.nat(9),
  tail: fc.integer({ min: 1, max: 4 }),
  output: fc.integer({ min: 1, max: 20 }),
  abortAfter: fc.option(fc.nat(40), { nil: undefined, freq: 6 }),
  hold: fc.boolean(),
  transfer: fc.boolean(),
});

function keyed(id: string, w: Wanted): KeyedRequest {
  const promptTokens = w.blocks * 4 + w.tail;
  const blocks = Array.from({ length: Math.floor(promptTokens / 4) }, (_, i) => w.family * 100 + i);
  return { id, blocks, promptTokens, outputTokens: w.output, hold: w.hold, transfer: w.transfer };
}

/** Play requests to the end; held blocks expire by themselves. */
function play(engine: EngineModel, wanted: readonly Wanted[]): readonly ModelOutput[] {
  const outputs: ModelOutput[] = [];
  let now = 0;
  const to = (time: number): void => {
    now = time;
    for (let i = 0; i < 10_000 && engine.nextAt !== undefined && engine.nextAt <= now; i++) {
      outputs.push(...engine.advance(engine.nextAt));
    }
    outputs.push(...engine.advance(now));
  };
  wanted.forEach((w, i) => {
    to(now + w.gap);
    engine.submit(now, keyed(`r${i}`, w));
    if (w.abortAfter === undefined) return;
    to(now + w.abortAfter);
    engine.abort(now, `r${i}`);
  });
  for (let i = 0; i < 10_000 && engine.nextAt !== undefined; i++) to(engine.nextAt);
  // News leave with a step: one more, so that all is told.
  engine.submit(now, { id: "last", blocks: [], promptTokens: 1, outputTokens: 1 });
  for (let i = 0; i < 10 && engine.nextAt !== undefined; i++) to(engine.nextAt);
  return outputs.filter((o) => !("id" in o && o.id === "last"));
}

describe.each(Object.entries(ENGINES))("EngineModel as %s", (_, limits) => {
  const engineOf = (): EngineModel => new EngineModel({ ...LIMITS, ...limits }, PROFILE, fastNamer);

  it("loses no request and no block, counts each token once, never runs back in time, and repeats itself", () => {
    fc.assert(
      fc.property(fc.array(anyWanted, { maxLength: 30 }), (wanted) => {
        const engine = engineOf();
        const outputs = play(engine, wanted);
        expect(outputs).toEqual(play(engineOf(), wanted));
        for (let i = 1; i < outputs.length; i++) expect(outputs[i]!.at).toBeGreaterThanOrEqual(outputs[i - 1]!.at);
        expect([engine.usedBlocks, engine.running, engine.waiting]).toEqual([0, 0, 0]);
        const { stop, length, abort } = engine.counters.finished;
        expect(stop + length + abort).toBe(wanted.length + 1);
        const finished = outputs.filter((o) => o.type === "finished");
        expect(new Set(finished.map((o) => o.id)).size).toBe(length - 1);
        for (const o of finished) expect(o.tokens).toBe(wanted[Number(o.id.slice(1))]!.output);
        const told = finished.reduce((sum, o) => sum + o.tokens, 0);
        if (abort === 0) expect(engine.counters.generatedTokens).toBe(told + 1);
      }),
      { numRuns: 60 },
    );
  });

  it("accounts for all of the time to the first token, and never finds the last prompt token cached", () => {
    fc.assert(
      fc.property(fc.array(anyWanted, { maxLength: 20 }), (wanted) => {
        for (const o of play(engineOf(), wanted)) {
          if (o.type !== "first") continue;
          const { overheadMs, queueMs, fetchMs, transferMs, prefillMs, firstAt, submittedAt } = o.timing;
          for (const part of [overheadMs, queueMs, fetchMs, transferMs]) expect(part).toBeGreaterThanOrEqual(0);
          expect(prefillMs).toBeGreaterThan(0);
          expect(overheadMs + queueMs + fetchMs + transferMs + prefillMs).toBeCloseTo(firstAt - submittedAt, 6);
          const { promptTokens, blocks } = keyed("", wanted[Number(o.id.slice(1))]!);
          expect(o.use.cachedTokens + (o.use.transferredTokens ?? 0)).toBeLessThan(promptTokens);
          expect(o.use.foundBlocks).toBeLessThanOrEqual(blocks.length + 1);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("tells what the device holds: blocks stored and not removed are those that are cached", () => {
    if (limits.eviction === "llama_cpp") return; // It has no events.
    fc.assert(
      fc.property(fc.array(anyWanted, { maxLength: 30 }), (wanted) => {
        const engine = engineOf();
        const there = new Set<number>();
        for (const o of play(engine, wanted)) {
          if (o.type !== "blocks") continue;
          for (const key of o.removed) there.delete(key);
          for (const key of o.stored) there.add(key);
        }
        // A prompt that was cached as a whole has its last block twice in vLLM.
        expect(there.size).toBeLessThanOrEqual(engine.cachedBlocks);
        if (limits.eviction === "sglang") expect(there.size).toBe(engine.cachedBlocks);
      }),
      { numRuns: 40 },
    );
  });
});

describe("EngineModel on block keys", () => {
  it("gives the times and the hits of the same requests with tokens, step by step", () => {
    const anyPair = fc.record({
      gap: fc.nat(12),
      family: fc.nat(2),
      blocks: fc.integer({ min: 1, max: 9 }),
      output: fc.integer({ min: 1, max: 30 }),
      abortAfter: fc.option(fc.nat(40), { nil: undefined, freq: 6 }),
    });
    fc.assert(
      fc.property(fc.array(anyPair, { maxLength: 20 }), fc.constantFrom(20, 30, 200), (wanted, blocks) => {
        const limits = { ...LIMITS, blocks };
        const results = (["tokens", "keys"] as const).map((mode) => {
          const engine = new EngineModel(limits, PROFILE, fastNamer);
          const seen: [string, number, number][] = [];
          const firsts = new Map<string, number>();
          const take = (outputs: readonly ModelOutput[]): void => {
            for (const o of outputs) {
              if (o.type === "first" || (o.type === "token" && o.index === 0)) firsts.set(o.id, o.at);
              if (o.type === "finished") seen.push([o.id, o.at, o.use.cachedTokens]);
            }
          };
          let now = 0;
          wanted.forEach((w, i) => {
            now += w.gap;
            take(engine.advance(now));
            const prompt = Array.from({ length: w.blocks * 4 }, (_, t) => w.family * 50 + t);
            // Answers are like no prompt and like no other answer.
            const output = Array.from({ length: w.output }, (_, t) => 1000 * (i + 1) + t);
            const keys = Array.from({ length: w.blocks }, (_, b) => w.family * 50 + b);
            const own = Array.from({ length: Math.ceil(w.output / 4) }, (_, b) => 1000 * (i + 1) + b);
            const id = `r${i}`;
            if (mode === "tokens") engine.submit(now, { id, prompt, output, finish: "length", lora: "", salt: "" });
            else
              engine.submit(now, {
                id,
                blocks: [...keys, ...own],
                promptTokens: prompt.length,
                outputTokens: output.length,
              });
            if (w.abortAfter === undefined) return;
            now += w.abortAfter;
            take(engine.advance(now));
            engine.abort(now, id);
          });
          for (let i = 0; i < 10_000 && engine.nextAt !== undefined; i++) take(engine.advance(engine.nextAt));
          return { seen, firsts: [...firsts], gaps: engine.gaps.count, counters: engine.counters };
        });
        const [tokens, keys] = results as [(typeof results)[0], (typeof results)[0]];
        expect(keys.seen.map(([id, , cached]) => [id, cached])).toEqual(tokens.seen.map(([id, , c]) => [id, c]));
        keys.seen.forEach(([, at], i) => {
          expect(at).toBeCloseTo(tokens.seen[i]![1], 6);
        });
        keys.firsts.forEach(([, at], i) => {
          expect(at).toBeCloseTo(tokens.firsts[i]![1], 6);
        });
        expect(keys.counters.steps).toBe(tokens.counters.steps);
        expect(keys.counters.preemptions).toBe(tokens.counters.preemptions);
        expect(keys.counters.generatedTokens).toBe(tokens.counters.generatedTokens);
        expect(keys.gaps).toBe(tokens.gaps);
      }),
      { numRuns: 100 },
    );
  });
});
