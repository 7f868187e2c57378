import type { EngineProfile } from "../model/profile.ts";
import { type Equation, errorPercent, nonNegativeLeastSquares } from "./least-squares.ts";

/** One prompt computed alone: how long until its first token. */
export interface PrefillSample {
  /** Prompt tokens that were computed, without those that were cached. */
  readonly tokens: number;
  /** Cached ones before them. Default 0. */
  readonly cachedTokens?: number;
  readonly ttftMs: number;
}

/** Answers that grew side by side, none of them computing its prompt. */
export interface DecodeSample {
  readonly sequences: number;
  /** Tokens of context, all of them together, on average over the sample. */
  readonly contextTokens: number;
  /** Between two tokens of one answer. */
  readonly gapMs: number;
}

/** What was found, and how well it explains what was measured. */
export interface Fit {
  readonly costs: Pick<
    EngineProfile,
    | "stepMs"
    | "prefillMsPerToken"
    | "prefillMsPerPair"
    | "narrowChunks"
    | "decodeMsPerSequence"
    | "decodeStepMs"
    | "contextMsPerToken"
    | "requestMs"
  >;
  /** Root mean square of the relative errors. */
  readonly decodeErrorPercent: number;
  readonly prefillErrorPercent: number;
}

/** Widths of attention's tiles that are tried; 0: all chunks cost alike. */
const NARROW_TOKENS = [0, 16, 32, 64, 128] as const;
/** What is more complicated must explain so much more: the share of the error that may be left. */
const WORTHWHILE = 0.6;
/** Better than this needs no explanation. */
const LEAST_ERROR_PERCENT = 3;

/**
 * The costs that explain the samples best. Answers give the cost of a step, of an answer in it and of its context; prompts,
 * with the step's cost known, those of tokens, of attention among them, and of any request.
 *
 * @throws RangeError when there are no samples of one sort
 */
export function fitProfile(prefill: readonly PrefillSample[], decode: readonly DecodeSample[]): Fit {
  if (prefill.length === 0 || decode.length === 0) throw new RangeError("both prompts and answers must be measured");
  const answers = fitAnswers(decode);
  const { firstMs, ...prompts } = fitPrompts(prefill);
  return {
    costs: { ...answers.costs, ...prompts.costs, requestMs: round(Math.max(0, firstMs - answers.costs.stepMs)) },
    decodeErrorPercent: answers.errorPercent,
    prefillErrorPercent: prompts.errorPercent,
  };
}

/** A cost for each answer; where that does not explain them (kernels that take four at a time), a cost for each number of answers. */
function fitAnswers(samples: readonly DecodeSample[]) {
  const linear: Equation[] = samples.map((s) => ({ x: [1, s.sequences, s.contextTokens], y: s.gapMs }));
  const solved = nonNegativeLeastSquares(linear) as Triple;
  const costs = { stepMs: round(solved[0]), decodeMsPerSequence: round(solved[1]) };
  const off = errorPercent(linear, solved);
  const counts = [...new Set(samples.map(({ sequences }) => sequences))].sort((a, b) => a - b);
  const apart: Equation[] = samples.map((s) => ({
    x: [...counts.map((count) => Number(s.sequences === count)), s.contextTokens],
    y: s.gapMs,
  }));
  const each = nonNegativeLeastSquares(apart);
  const offApart = errorPercent(apart, each);
  // With one context for each count the answers would explain themselves.
  if (samples.length <= counts.length + 1 || offApart > WORTHWHILE * off || off < LEAST_ERROR_PERCENT)
    return { costs: { ...costs, contextMsPerToken: round(solved[2]) }, errorPercent: off };
  const decodeStepMs = counts.map((sequences, i) => ({ sequences, ms: round(each[i]!) }));
  return { costs: { ...costs, decodeStepMs, contextMsPerToken: round(each.at(-1)!) }, errorPercent: offApart };
}

/** Tokens, and attention; narrow chunks apart where that explains them better. */
function fitPrompts(samples: readonly PrefillSample[]) {
  const fits = NARROW_TOKENS.map((narrow) => {
    const equations: Equation[] = samples.map(({ tokens, cachedTokens = 0, ttftMs }) => {
      const pairs = tokens * (cachedTokens + tokens / 2);
      return { x: tokens < narrow ? [1, tokens, 0, pairs] : [1, tokens, pairs, 0], y: ttftMs };
    });
    const solved = nonNegativeLeastSquares(equations) as readonly [number, number, number, number];
    return { narrow, solved, errorPercent: errorPercent(equations, solved) };
  });
  const plain = fits[0]!;
  const finest = fits.reduce((best, each) => (each.errorPercent < best.errorPercent ? each : best), plain);
  const worthwhile = plain.errorPercent > LEAST_ERROR_PERCENT && finest.errorPercent < WORTHWHILE * plain.errorPercent;
  const best = worthwhile ? finest : plain;
  const [firstMs, perToken, perPair, perNarrowPair] = best.solved;
  const costs = {
    prefillMsPerToken: round(perToken),
    prefillMsPerPair: round(perPair),
    ...(best.narrow === 0 ? {} : { narrowChunks: { tokens: best.narrow, msPerPair: round(perNarrowPair) } }),
  };
  return { firstMs, costs, errorPercent: best.errorPercent };
}

type Triple = readonly [number, number, number];

/** More digits than four would only look exact. */
function round(value: number): number {
  return Number(value.toPrecision(4));
}
