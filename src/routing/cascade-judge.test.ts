import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type JudgeInput,
  type JudgeRule,
  judge,
  judgeEnd,
  LEAST_LOGPROB,
  meanOf,
  newJudged,
  tokensOf,
  type Verdict,
} from "./cascade-judge.ts";

const rule = (over: Partial<JudgeRule> = {}): JudgeRule => ({ threshold: -1.5, tokens: 4, choices: 1, ...over });

const token = (...logprobs: number[]): JudgeInput => ({ choice: 0, logprobs, generated: true, ended: false });
const silent: JudgeInput = { choice: 0, logprobs: [], generated: true, ended: false };

function run(of: JudgeRule, inputs: readonly JudgeInput[]): ReturnType<typeof newJudged> {
  return inputs.reduce(judge, newJudged(of));
}

describe("judge()", () => {
  it("judge() says nothing while the mean may still go either way", () => {
    expect(run(rule(), [token(-1), token(-2)]).verdict).toBeUndefined();
  });

  it("judge() keeps an answer with the last token that counts", () => {
    expect(run(rule(), [token(-0.1, -0.1, -0.1), token(-0.1)]).verdict).toBe("sure");
    expect(run(rule(), [token(-0.1, -0.1, -0.1), token(-0.1), token(-20)]).verdict).toBe("sure");
  });

  it("judge() gives an answer up as soon as certain tokens could not save it", () => {
    const judged = run(rule(), [token(-6.5)]);
    expect(judged.verdict).toBe("unsure");
    expect(tokensOf(judged)).toBe(1);
  });

  it("judge() keeps an answer early when the least likely tokens could not spoil it", () => {
    // 39 certain tokens, and at worst one of -20: -0.5.
    expect(run(rule({ tokens: 40, threshold: -0.6 }), [token(...Array<number>(39).fill(0))]).verdict).toBe("sure");
  });

  it("judge() counts an answer that is shorter by what it has", () => {
    expect(run(rule(), [token(-1), { ...silent, generated: false, ended: true }]).verdict).toBe("sure");
    expect(run(rule(), [token(-2), { ...silent, generated: false, ended: true }]).verdict).toBe("unsure");
  });

  it("judge() waits for the end of an answer that counts whole, unless its length has a limit", () => {
    expect(run(rule({ tokens: 0 }), [token(...Array<number>(500).fill(-15))]).verdict).toBeUndefined();
    expect(run(rule({ tokens: 0, most: 100 }), [token(...Array<number>(15).fill(-15))]).verdict).toBe("unsure");
  });

  it("judge() says blind when nothing with log probabilities comes", () => {
    expect(run(rule(), Array<JudgeInput>(7).fill(silent)).verdict).toBeUndefined();
    expect(run(rule(), Array<JudgeInput>(8).fill(silent)).verdict).toBe("blind");
    expect(judgeEnd(newJudged(rule())).verdict).toBe("blind");
  });

  it("judge() takes a token that an engine calls impossible for one that is unlikely", () => {
    expect(meanOf(run(rule(), [token(-9999)]))).toBe(LEAST_LOGPROB);
    expect(meanOf(run(rule(), [token(0.001)]))).toBe(0);
  });

  it("judge() counts all choices together and waits for each", () => {
    const two = rule({ choices: 2, tokens: 2 });
    const first = run(two, [token(-0.5, -0.5)]);
    expect(first.verdict).toBeUndefined();
    expect(judge(first, { ...token(-0.5, -3), choice: 1 }).verdict).toBe("sure");
    expect(judge(first, { ...token(-3, -5), choice: 1 }).verdict).toBe("unsure");
    expect(judge(first, { ...token(-9), choice: 7 })).toBe(first);
  });
});

const logprob = fc.double({ min: -25, max: 0, noNaN: true });
const answer = fc.record({
  threshold: fc.double({ min: -6, max: 0, noNaN: true }),
  tokens: fc.integer({ min: 1, max: 24 }),
  choices: fc.array(fc.array(logprob, { maxLength: 40 }), { minLength: 1, maxLength: 3 }),
  sizes: fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 20 }),
});

/** What the whole of the tokens that count says. */
function wholeVerdict(threshold: number, tokens: number, choices: readonly (readonly number[])[]): Verdict {
  const counted = choices.flatMap((of) => of.slice(0, tokens)).map((p) => Math.max(LEAST_LOGPROB, p));
  if (counted.length === 0) return "blind";
  return counted.reduce((sum, p) => sum + p, 0) / counted.length < threshold ? "unsure" : "sure";
}

/** The choices' tokens in parts of the given sizes, in turns, each choice with its end. */
function parts(choices: readonly (readonly number[])[], sizes: readonly number[]): JudgeInput[] {
  const at = choices.map(() => 0);
  const inputs: JudgeInput[] = [];
  for (let k = 0; at.some((from, i) => from <= choices[i]!.length); k++) {
    const choice = k % choices.length;
    const from = at[choice]!;
    if (from > choices[choice]!.length) continue;
    const logprobs = choices[choice]!.slice(from, from + sizes[k % sizes.length]!);
    const ended = logprobs.length === 0;
    at[choice] = ended ? Number.POSITIVE_INFINITY : from + logprobs.length;
    inputs.push({ choice, logprobs, generated: !ended, ended });
  }
  return inputs;
}

describe("judge() on any answer", () => {
  it("judge() decides early what it would decide at the end, however the tokens come", () => {
    fc.assert(
      fc.property(answer, ({ threshold, tokens, choices, sizes }) => {
        const judged = judgeEnd(run({ threshold, tokens, choices: choices.length }, parts(choices, sizes)));
        const whole = wholeVerdict(threshold, tokens, choices);
        // Sums in another order may differ in their last bits: at the threshold itself either is right.
        const counted = choices.flatMap((of) => of.slice(0, tokens)).map((p) => Math.max(LEAST_LOGPROB, p));
        const mean = counted.reduce((sum, p) => sum + p, 0) / counted.length;
        fc.pre(Math.abs(mean - threshold) > 1e-6 || counted.length === 0);
        expect(judged.verdict).toBe(whole);
      }),
      { numRuns: 2_000 },
    );
  });

  it("judge() has its verdict when every choice has its tokens, and never changes it", () => {
    fc.assert(
      fc.property(answer, ({ threshold, tokens, choices, sizes }) => {
        let judged = newJudged({ threshold, tokens, choices: choices.length });
        let verdict: Verdict | undefined;
        for (const input of parts(choices, sizes)) {
          judged = judge(judged, input);
          if (verdict !== undefined) expect(judged.verdict).toBe(verdict);
          verdict = judged.verdict;
          if (judged.counts.every((count) => count >= tokens)) expect(verdict).toBeDefined();
          expect(tokensOf(judged)).toBeLessThanOrEqual(tokens * choices.length);
        }
      }),
    );
  });

  it("judge() that is sure of an answer is sure of it with any lower threshold", () => {
    fc.assert(
      fc.property(
        answer,
        fc.double({ min: 0, max: 5, noNaN: true }),
        ({ threshold, tokens, choices, sizes }, lower) => {
          const inputs = parts(choices, sizes);
          const at = (t: number): Verdict | undefined =>
            judgeEnd(run({ threshold: t, tokens, choices: choices.length }, inputs)).verdict;
          if (at(threshold) === "sure") expect(at(threshold - lower)).toBe("sure");
        },
      ),
    );
  });
});
