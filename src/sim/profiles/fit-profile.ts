import type { EngineProfile } from "../model/profile.ts";
import { type Equation, errorPercent, nonNegativeLeastSquares } from "./least-squares.ts";

/** One prompt computed alone: how long until its first token. */
export interface PrefillSample {
  /** Prompt tokens that were computed, without those that were cached. */
  readonly tokens: number;
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
    "stepMs" | "prefillMsPerToken" | "prefillMsPerPair" | "decodeMsPerSequence" | "contextMsPerToken" | "requestMs"
  >;
  /** Root mean square of the relative errors. */
  readonly decodeErrorPercent: number;
  readonly prefillErrorPercent: number;
}

/**
 * The costs that explain the samples best. Answers give the cost of a step, of an answer in it and of its context; prompts,
 * with the step's cost known, those of tokens, of attention among them, and of any request.
 *
 * @throws RangeError when there are no samples of one sort
 */
export function fitProfile(prefill: readonly PrefillSample[], decode: readonly DecodeSample[]): Fit {
  if (prefill.length === 0 || decode.length === 0) throw new RangeError("both prompts and answers must be measured");
  const decodeEquations: Equation[] = decode.map((s) => ({ x: [1, s.sequences, s.contextTokens], y: s.gapMs }));
  const [stepMs, decodeMsPerSequence, contextMsPerToken] = nonNegativeLeastSquares(decodeEquations) as Triple;
  const prefillEquations: Equation[] = prefill.map((s) => ({ x: [1, s.tokens, s.tokens ** 2 / 2], y: s.ttftMs }));
  const [firstMs, prefillMsPerToken, prefillMsPerPair] = nonNegativeLeastSquares(prefillEquations) as Triple;
  return {
    costs: {
      stepMs: round(stepMs),
      prefillMsPerToken: round(prefillMsPerToken),
      prefillMsPerPair: round(prefillMsPerPair),
      decodeMsPerSequence: round(decodeMsPerSequence),
      contextMsPerToken: round(contextMsPerToken),
      requestMs: round(Math.max(0, firstMs - stepMs)),
    },
    decodeErrorPercent: errorPercent(decodeEquations, [stepMs, decodeMsPerSequence, contextMsPerToken]),
    prefillErrorPercent: errorPercent(prefillEquations, [firstMs, prefillMsPerToken, prefillMsPerPair]),
  };
}

type Triple = readonly [number, number, number];

/** More digits than four would only look exact. */
function round(value: number): number {
  return Number(value.toPrecision(4));
}
