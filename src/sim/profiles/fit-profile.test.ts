import { describe, expect, it } from "vitest";
import { EngineModel, type ModelOutput } from "../model/engine-model.ts";
import { fastNamer } from "../model/namer.ts";
import type { EngineProfile } from "../model/profile.ts";
import { fitProfile } from "./fit-profile.ts";
import { errorPercent, nonNegativeLeastSquares } from "./least-squares.ts";
import { type Ask, decodeSample, measureEngine, type TimedAnswer } from "./measure-engine.ts";
import { UniquePrompts } from "./unique-prompts.ts";

/** An engine in virtual time, asked as a real one is over HTTP. */
function askModel(profile: EngineProfile, maxSequences = 64): Ask {
  const limits = {
    blocks: 8192,
    blockTokens: 16,
    maxBatchedTokens: 2048,
    maxSequences,
    prefixCaching: true,
    generatedBlocks: "as-filled",
    publishesWhenIdle: false,
  } as const;
  const engine = new EngineModel(limits, profile, fastNamer);
  let now = 0;
  let serial = 0;
  return async (promptTokens, maxTokens) => {
    const answers = promptTokens.map((length) => {
      const id = `r${serial++}`;
      const prompt = Array.from({ length }, (_, i) => serial * 100_003 + i);
      const output = Array.from({ length: maxTokens }, (_, i) => i);
      engine.submit(now, { id, prompt, output, finish: "length", lora: "", salt: "" });
      return { id, sentAt: now, tokenTimes: [] as number[], tokens: maxTokens, promptTokens: length, cachedTokens: 0 };
    });
    const take = (outputs: readonly ModelOutput[]): void => {
      for (const o of outputs) if (o.type === "token") answers.find(({ id }) => id === o.id)!.tokenTimes.push(o.at);
    };
    for (let i = 0; i < 100_000 && engine.nextAt !== undefined; i++) {
      now = engine.nextAt;
      take(engine.advance(now));
    }
    return answers satisfies readonly TimedAnswer[];
  };
}

const OPTIONS = { quick: false, maxPromptTokens: 2048, maxSequences: 16, maxPromptMs: 8_000, onProgress: () => {} };

const OWN: EngineProfile = {
  name: "own",
  source: "this test",
  stepMs: 6.5,
  prefillMsPerToken: 0.4,
  prefillMsPerPair: 0.0002,
  decodeMsPerSequence: 0.7,
  contextMsPerToken: 0.0015,
  requestMs: 12,
};

describe("fitProfile()", () => {
  it.each([false, true])("finds a simulated engine's own profile again (quick: %s)", async (quick) => {
    const { prefill, decode } = await measureEngine(askModel(OWN), { ...OPTIONS, quick });
    const { costs, prefillErrorPercent, decodeErrorPercent } = fitProfile(prefill, decode);
    for (const key of Object.keys(costs) as (keyof typeof costs)[]) {
      const off = Math.abs(costs[key]! - OWN[key]!) / OWN[key]!;
      expect(off, `${key}: ${costs[key]} instead of ${OWN[key]}`).toBeLessThan(0.03);
    }
    expect(Math.max(prefillErrorPercent, decodeErrorPercent)).toBeLessThan(1);
  });

  it("leaves out sets of answers that the engine computed one after the other", async () => {
    const { decode } = await measureEngine(askModel(OWN, 2), OPTIONS);
    expect(new Set(decode.map(({ sequences }) => sequences))).toEqual(new Set([1, 2]));
    const { costs } = fitProfile([{ tokens: 100, ttftMs: 50 }], decode);
    expect(costs.decodeMsPerSequence).toBeCloseTo(OWN.decodeMsPerSequence, 1);
  });

  it("is not led astray by what is not there: no cost is negative", () => {
    const prefill = [100, 1000].map((tokens) => ({ tokens, ttftMs: 5 + tokens * 0.1 - tokens ** 2 * 1e-6 }));
    const decode = [
      { sequences: 1, contextTokens: 100, gapMs: 10 },
      { sequences: 4, contextTokens: 400, gapMs: 9 },
    ];
    const { costs } = fitProfile(prefill, decode);
    for (const cost of Object.values(costs)) expect(cost).toBeGreaterThanOrEqual(0);
  });

  it("needs samples of both sorts", () => {
    expect(() => fitProfile([], [{ sequences: 1, contextTokens: 1, gapMs: 1 }])).toThrow(RangeError);
  });
});

describe("decodeSample()", () => {
  const answer = (from: number, gap: number, pieces: number, tokens = pieces): TimedAnswer => ({
    sentAt: 0,
    tokenTimes: Array.from({ length: pieces }, (_, i) => from + i * gap),
    tokens,
    promptTokens: 100,
    cachedTokens: 0,
  });

  it("counts tokens where one piece has several", () => {
    expect(decodeSample([answer(10, 20, 16, 32)])).toMatchObject({ sequences: 1, gapMs: 10, contextTokens: 116 });
  });

  it("looks only at the time in which all answers grow", () => {
    const slowAtFirst = { ...answer(100, 10, 20, 21), tokenTimes: [0, ...answer(100, 10, 20).tokenTimes] };
    expect(decodeSample([slowAtFirst, answer(105, 10, 21)])?.gapMs).toBeCloseTo(10);
    expect(decodeSample([answer(0, 10, 20), answer(500, 10, 20)])).toBeUndefined();
  });
});

describe("nonNegativeLeastSquares()", () => {
  it("solves what can be solved, and sets to 0 what would be negative or is not told of", () => {
    const exact = [
      { x: [1, 2, 0], y: 8 },
      { x: [1, 5, 0], y: 17 },
    ];
    const [a, b, c] = nonNegativeLeastSquares(exact);
    expect([a, b, c]).toEqual([expect.closeTo(2, 4), expect.closeTo(3, 4), 0]);
    expect(errorPercent(exact, [2, 3, 0])).toBeCloseTo(0);
    const falling = nonNegativeLeastSquares([
      { x: [1, 1], y: 10 },
      { x: [1, 2], y: 8 },
    ]);
    expect(falling[1]).toBe(0);
    expect(falling[0]).toBeGreaterThan(8);
  });
});

describe("UniquePrompts", () => {
  it("ofTokens() gives as many words as the vocabulary needs, once it is known", () => {
    let n = 0;
    const prompts = new UniquePrompts(() => (n++ * 0.37) % 1);
    prompts.learn({ words: 20, tokens: 41 }, { words: 120, tokens: 241 });
    expect(prompts.ofTokens(101).split(" ")).toHaveLength(50);
    expect(prompts.ofTokens(101)).not.toBe(prompts.ofTokens(101));
  });
});
