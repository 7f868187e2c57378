import { describe, expect, it } from "vitest";
import { EngineModel, type ModelOutput } from "../model/engine-model.ts";
import { fastNamer } from "../model/namer.ts";
import type { EngineProfile } from "../model/profile.ts";
import { fitProfile } from "./fit-profile.ts";
import { errorPercent, nonNegativeLeastSquares } from "./least-squares.ts";
import { type Ask, decodeSample, measureEngine, type TimedAnswer } from "./measure-engine.ts";
import { UniquePrompts } from "./unique-prompts.ts";

/** An engine in virtual time, asked as a real one is over HTTP. */
function askModel(profile: EngineProfile, maxSequences = 64, tellsCache = true): Ask {
  const limits = {
    blocks: 32_768,
    blockTokens: 4,
    maxBatchedTokens: 2048,
    maxSequences,
    prefixCaching: true,
    generatedBlocks: "as-filled",
    publishesWhenIdle: false,
  } as const;
  const engine = new EngineModel(limits, profile, fastNamer);
  let now = 0;
  let serial = 0;
  const words = (length: number) => {
    serial++;
    return Array.from({ length }, (_, i) => serial * 100_003 + i);
  };
  const play = (prompts: readonly number[][], maxTokens: number): readonly TimedAnswer[] => {
    const answers = prompts.map((prompt) => {
      const id = `r${serial++}`;
      const output = Array.from({ length: maxTokens }, (_, i) => i);
      engine.submit(now, { id, prompt, output, finish: "length", lora: "", salt: "" });
      const told = { tokens: maxTokens, promptTokens: prompt.length, cachedTokens: 0 };
      return { id, sentAt: now, tokenTimes: [] as number[], ...told };
    });
    const take = (outputs: readonly ModelOutput[]): void => {
      for (const o of outputs) {
        const answer = answers.find(({ id }) => (o.type === "token" || o.type === "finished") && id === o.id);
        if (answer === undefined) continue;
        if (o.type === "token") answer.tokenTimes.push(o.at);
        if (o.type === "finished" && tellsCache) answer.cachedTokens = o.use.cachedTokens;
      }
    };
    for (let i = 0; i < 100_000 && engine.nextAt !== undefined; i++) {
      now = engine.nextAt;
      take(engine.advance(now));
    }
    return answers;
  };
  return {
    apart: async (promptTokens, maxTokens) => play(promptTokens.map(words), maxTokens),
    goingOn: async (promptTokens, more) => {
      const begin = words(promptTokens);
      play([begin], 1);
      return more.flatMap((count) => play([[...begin, ...words(count)]], 1));
    },
  };
}

const OPTIONS = { quick: false, maxPromptTokens: 2048, maxSequences: 16, maxPromptMs: 8_000, onProgress: () => {} };

const NUMBERS = {
  stepMs: 6.5,
  prefillMsPerToken: 0.4,
  prefillMsPerPair: 0.0002,
  decodeMsPerSequence: 0.7,
  contextMsPerToken: 0.0015,
  requestMs: 12,
};
const OWN: EngineProfile = { name: "own", source: "this test", ...NUMBERS };
/** As llama-server on a CPU: attention in tiles of 64 tokens, three answers as dear as four. */
const TILED: EngineProfile = {
  ...OWN,
  prefillMsPerToken: 7,
  prefillMsPerPair: 0.0021,
  narrowChunks: { tokens: 64, msPerPair: 0.0071 },
  decodeStepMs: [
    { sequences: 1, ms: 19 },
    { sequences: 2, ms: 30 },
    { sequences: 3, ms: 49 },
    { sequences: 4, ms: 47 },
  ],
};

describe("fitProfile()", () => {
  it.each([false, true])("finds a simulated engine's own profile again (quick: %s)", async (quick) => {
    const { prefill, decode } = await measureEngine(askModel(OWN), { ...OPTIONS, quick });
    const { costs, prefillErrorPercent, decodeErrorPercent } = fitProfile(prefill, decode);
    expect(Object.keys(costs).sort()).toEqual(Object.keys(NUMBERS).sort());
    for (const key of Object.keys(NUMBERS) as (keyof typeof NUMBERS)[]) {
      const off = Math.abs(costs[key]! - NUMBERS[key]) / NUMBERS[key];
      expect(off, `${key}: ${costs[key]} instead of ${NUMBERS[key]}`).toBeLessThan(0.03);
    }
    expect(Math.max(prefillErrorPercent, decodeErrorPercent)).toBeLessThan(1);
  });

  it("finds what narrow chunks and each number of answers cost, where that is not as it would be", async () => {
    const { prefill, decode } = await measureEngine(askModel(TILED, 4), { ...OPTIONS, maxSequences: 4 });
    const { costs, prefillErrorPercent, decodeErrorPercent } = fitProfile(prefill, decode);
    expect(costs.narrowChunks?.tokens).toBe(64);
    expect(costs.narrowChunks!.msPerPair).toBeCloseTo(TILED.narrowChunks!.msPerPair, 3);
    expect(costs.decodeStepMs?.map(({ ms }) => Math.round(ms))).toEqual([19, 30, 49, 47]);
    expect(Math.max(prefillErrorPercent, decodeErrorPercent)).toBeLessThan(1);
  });

  it("takes no prompt for one that goes on where the engine does not say what it found", async () => {
    const { prefill } = await measureEngine(askModel(TILED, 4, false), { ...OPTIONS, maxSequences: 4 });
    expect(prefill.map(({ tokens }) => tokens)).toEqual([32, 128, 256, 512, 1024]);
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
