/**
 * Is a small model sure of its answer? A state machine over the log probabilities of the tokens as they come, so that the verdict falls
 * with the first token that makes it certain. Natural logarithms throughout, as engines tell them.
 */

/** By what an answer is judged. */
export interface JudgeRule {
  /** The least mean log probability of a token with which an answer is kept. */
  readonly threshold: number;
  /** So many first tokens of each choice count; 0: all of them. */
  readonly tokens: number;
  /** Answers asked for at once (`n`), at least 1. Their tokens are counted together. */
  readonly choices: number;
  /** More tokens than this a choice cannot have (`max_tokens`). */
  readonly most?: number;
}

/** `sure`: the answer stays. `unsure`: the next model is asked. `blind`: no log probabilities came. */
export type Verdict = "sure" | "unsure" | "blind";

/** What came of one choice. */
export interface JudgeInput {
  /** Which of the choices, from 0. */
  readonly choice: number;
  readonly logprobs: readonly number[];
  /** Something was generated, with log probabilities or without. */
  readonly generated: boolean;
  /** Nothing more comes of this choice. */
  readonly ended: boolean;
}

/** What was seen so far. Once there is a verdict it stays. */
export interface Judged {
  readonly rule: JudgeRule;
  readonly verdict: Verdict | undefined;
  readonly sum: number;
  /** Tokens that count, by choice. */
  readonly counts: readonly number[];
  readonly ended: readonly boolean[];
  /** Parts that came without log probabilities. */
  readonly silent: number;
}

/**
 * Less likely than this (2 in a billion) is this unlikely: engines tell numbers like -9999 for what sampling has excluded, and one such
 * token must not outweigh an answer.
 */
export const LEAST_LOGPROB = -20;

/** So many parts without any log probability mean that none will come: some engines tell none with the first. */
const SILENT_PARTS = 8;

/** Choices beyond these are not looked at: nobody asks for more. */
const MOST_CHOICES = 128;

export function newJudged(rule: JudgeRule): Judged {
  const choices = Math.max(1, Math.min(rule.choices, MOST_CHOICES));
  return {
    rule: { ...rule, choices },
    verdict: undefined,
    sum: 0,
    counts: Array.from({ length: choices }, () => 0),
    ended: Array.from({ length: choices }, () => false),
    silent: 0,
  };
}

/** Mean log probability of the tokens that count; undefined: there are none. */
export function meanOf({ sum, counts }: Judged): number | undefined {
  const tokens = countOf(counts);
  return tokens === 0 ? undefined : sum / tokens;
}

/** Tokens that count. */
export function tokensOf({ counts }: Judged): number {
  return countOf(counts);
}

/** Take what came of one choice. */
export function judge(judged: Judged, { choice, logprobs, generated, ended }: JudgeInput): Judged {
  const { rule } = judged;
  if (judged.verdict !== undefined || choice < 0 || choice >= rule.choices) return judged;
  const counts = [...judged.counts];
  let { sum } = judged;
  const limit = limitOf(rule);
  for (const logprob of logprobs) {
    if (counts[choice]! >= limit) break;
    sum += Math.min(0, Math.max(LEAST_LOGPROB, logprob));
    counts[choice]!++;
  }
  const next: Judged = {
    ...judged,
    sum,
    counts,
    ended: ended ? judged.ended.with(choice, true) : judged.ended,
    silent: judged.silent + (generated && logprobs.length === 0 ? 1 : 0),
  };
  return { ...next, verdict: verdictOf(next) };
}

/** Nothing more comes: what is there decides. */
export function judgeEnd(judged: Judged): Judged {
  if (judged.verdict !== undefined) return judged;
  const next = { ...judged, ended: judged.ended.map(() => true) };
  return { ...next, verdict: verdictOf(next) };
}

function verdictOf({ rule, sum, counts, ended, silent }: Judged): Verdict | undefined {
  const limit = limitOf(rule);
  const tokens = countOf(counts);
  let more = 0;
  for (let i = 0; i < counts.length; i++) if (ended[i] !== true) more += limit - counts[i]!;
  if (tokens === 0) return more === 0 || silent >= SILENT_PARTS ? "blind" : undefined;
  // The best that may still come are tokens that were certain (0), the worst are the least likely.
  if (more === 0) return sum / tokens < rule.threshold ? "unsure" : "sure";
  if (more === Number.POSITIVE_INFINITY) return undefined;
  if (sum / (tokens + more) < rule.threshold) return "unsure";
  return (sum + more * LEAST_LOGPROB) / (tokens + more) >= rule.threshold + SLACK ? "sure" : undefined;
}

/** Sums in another order differ in their last bits. */
const SLACK = 1e-9;

function limitOf({ tokens, most }: JudgeRule): number {
  return Math.min(tokens === 0 ? Number.POSITIVE_INFINITY : tokens, most ?? Number.POSITIVE_INFINITY);
}

const countOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);
