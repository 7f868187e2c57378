import type { DecodeSample, PrefillSample } from "./fit-profile.ts";

/** One answered request: when its tokens came. Times in milliseconds. */
export interface TimedAnswer {
  readonly sentAt: number;
  /** When pieces of the answer came; engines under load may put several tokens into one. */
  readonly tokenTimes: readonly number[];
  /** Tokens of the answer. */
  readonly tokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** Sends requests. What it throws is the engine's refusal. */
export interface Ask {
  /** Prompts of about so many tokens at once. No two ever begin alike. */
  apart(promptTokens: readonly number[], maxTokens: number): Promise<readonly TimedAnswer[]>;
  /** A prompt, then again and again the same with about so many other tokens behind it, one after the other; the answers to the latter. */
  goingOn(promptTokens: number, moreTokens: readonly number[]): Promise<readonly TimedAnswer[]>;
}

export interface MeasureOptions {
  /** Fewer points, for a first idea. */
  readonly quick: boolean;
  /** The longest prompt that the engine takes, where it said so. */
  readonly maxPromptTokens: number;
  /** Most requests at once. */
  readonly maxSequences: number;
  /** A prompt that takes longer than this is not measured. */
  readonly maxPromptMs: number;
  onProgress(share: number, note: string): void;
}

const LENGTHS = { quick: [64, 256, 512, 1024], full: [32, 128, 256, 512, 1024, 1536, 2048] } as const;
const SEQUENCES = { quick: [1, 4], full: [1, 2, 3, 4, 8, 16] } as const;
const ANSWER_TOKENS = { quick: 32, full: 64 } as const;
const REPEATS = { quick: 2, full: 3 } as const;
/** Prompts that go on with a cached one, as most turns of a chat do. */
const MORE_TOKENS = { quick: [24, 96], full: [12, 24, 48, 96, 160] } as const;
/** Two contexts, so that their cost can be told from that of the answers. */
const SHORT_CONTEXT = 32;
const LONG_CONTEXT = 1024;
const WARM_TOKENS = 256;
/** However slow an engine is: with fewer lengths its costs cannot be told apart. */
const SLOWEST_TOKENS = 512;
/** Fewer gaps than this side by side say too little. */
const LEAST_GAPS = 6;

export interface Measurements {
  readonly prefill: readonly PrefillSample[];
  readonly decode: readonly DecodeSample[];
}

/** Measure prompts alone, then answers side by side. The first requests are thrown away: they warm the engine. */
export async function measureEngine(ask: Ask, options: MeasureOptions): Promise<Measurements> {
  const size = options.quick ? "quick" : "full";
  const perTokenMs = (await firstTokenMs(ask, [SHORT_CONTEXT, WARM_TOKENS, WARM_TOKENS])) / WARM_TOKENS;
  const longest = Math.max(SLOWEST_TOKENS, Math.min(options.maxPromptTokens, options.maxPromptMs / perTokenMs));
  const lengths = LENGTHS[size].filter((tokens) => tokens <= longest);
  const contexts = [SHORT_CONTEXT, Math.min(LONG_CONTEXT, Math.floor(longest / 2))].filter((c, i) => i === 0 || c > 64);
  const sequences = SEQUENCES[size].filter((count) => count <= options.maxSequences);
  const all = lengths.length * REPEATS[size] + contexts.length * sequences.length + 1;
  let done = 0;
  const progress = (note: string): void => options.onProgress(done++ / all, note);

  const prefill: PrefillSample[] = [];
  for (const tokens of lengths) {
    const samples: PrefillSample[] = [];
    for (let i = 0; i < REPEATS[size]; i++) {
      progress(`prompt of ${tokens} tokens`);
      const [answer] = await ask.apart([tokens], 1);
      samples.push(prefillSample(answer!));
    }
    prefill.push(middle(samples));
  }
  progress("prompts that go on with a cached one");
  prefill.push(...(await goingOn(ask, contexts.at(-1)!, MORE_TOKENS[size], REPEATS[size])));
  const decode: DecodeSample[] = [];
  for (const context of contexts) {
    for (const count of sequences) {
      progress(`${count} ${count === 1 ? "answer" : "answers"} at ${context} tokens`);
      const answers = await ask.apart(new Array<number>(count).fill(context), ANSWER_TOKENS[size]);
      const sample = decodeSample(answers);
      if (sample !== undefined) decode.push(sample);
    }
  }
  options.onProgress(1, "");
  return { prefill, decode };
}

/** Samples of an engine that says what it found in its cache; none of others. */
async function goingOn(
  ask: Ask,
  context: number,
  more: readonly number[],
  repeats: number,
): Promise<readonly PrefillSample[]> {
  const all = more.flatMap((tokens) => new Array<number>(repeats).fill(tokens));
  const answers = (await ask.goingOn(context, all)).map(prefillSample);
  return more.flatMap((_, i) => {
    const samples = answers.slice(i * repeats, (i + 1) * repeats);
    return samples.every(({ cachedTokens = 0 }) => cachedTokens > context / 2) ? [middle(samples)] : [];
  });
}

/** Disturbances only ever add: the middle one is the most telling. */
function middle(samples: readonly PrefillSample[]): PrefillSample {
  const sorted = [...samples].sort((a, b) => a.ttftMs / a.tokens - b.ttftMs / b.tokens);
  return sorted[Math.floor((sorted.length - 1) / 2)]!;
}

/** Ask for these one after the other. @returns how long the last one's first token took */
async function firstTokenMs(ask: Ask, lengths: readonly number[]): Promise<number> {
  let last: TimedAnswer | undefined;
  for (const tokens of lengths) [last] = await ask.apart([tokens], 2);
  return last!.tokenTimes[0]! - last!.sentAt;
}

/** The first token's time, for the tokens that were computed. */
export function prefillSample({ sentAt, tokenTimes, promptTokens, cachedTokens }: TimedAnswer): PrefillSample {
  return { tokens: promptTokens - cachedTokens, cachedTokens, ttftMs: tokenTimes[0]! - sentAt };
}

/**
 * How fast answers grew while all of them did: from the last one's first token to the first one's last.
 * @returns undefined when they hardly ran side by side, as where the engine computes fewer at a time
 */
export function decodeSample(answers: readonly TimedAnswer[]): DecodeSample | undefined {
  const begin = Math.max(...answers.map(({ tokenTimes }) => tokenTimes[0]!));
  const end = Math.min(...answers.map(({ tokenTimes }) => tokenTimes.at(-1)!));
  let gaps = 0;
  let spanMs = 0;
  let contextTokens = 0;
  for (const { tokenTimes, tokens, promptTokens } of answers) {
    const within = tokenTimes.filter((time) => time >= begin && time <= end);
    if (within.length <= LEAST_GAPS) return undefined;
    const perPiece = tokens / tokenTimes.length;
    gaps += (within.length - 1) * perPiece;
    spanMs += within.at(-1)! - within[0]!;
    const before = tokenTimes.filter((time) => time < begin).length;
    contextTokens += promptTokens + (before + within.length / 2) * perPiece;
  }
  return { sequences: answers.length, contextTokens, gapMs: spanMs / gaps };
}
