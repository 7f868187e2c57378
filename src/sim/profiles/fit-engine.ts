import type { EngineProfile } from "../model/profile.ts";
import { type Fit, fitProfile } from "./fit-profile.ts";
import { type Ask, type Measurements, measureEngine, type TimedAnswer } from "./measure-engine.ts";
import { type MeasuredEngine, timedRequest } from "./timed-request.ts";
import { UniquePrompts } from "./unique-prompts.ts";

export interface FitOptions {
  readonly name: string;
  readonly quick: boolean;
  readonly maxPromptTokens: number;
  readonly maxSequences: number;
  readonly kvBytesPerToken: number | undefined;
  /** From 0 to 1. */
  random(): number;
  onProgress(share: number, note: string): void;
}

/** Even a good fit predicts other loads worse than the one it was made from. */
const LEAST_ERROR_PERCENT = 5;
const MAX_PROMPT_MS = 8_000;

/**
 * Measure a running engine and make its profile: some minutes, in which it should have nothing else to do.
 * @throws CgnError UPSTREAM_FAILED when it does not answer
 * @throws RangeError when nothing could be measured
 */
export async function fitEngine(
  engine: MeasuredEngine,
  options: FitOptions,
): Promise<{ readonly profile: EngineProfile; readonly fit: Fit; readonly measured: Measurements }> {
  const prompts = new UniquePrompts(options.random);
  const learnt: { words: number; tokens: number }[] = [];
  for (const words of [20, 120]) {
    const { promptTokens } = await timedRequest(engine, prompts.words(words), 1);
    learnt.push({ words, tokens: promptTokens });
  }
  prompts.learn(learnt[0]!, learnt[1]!);
  const ask: Ask = {
    apart: (tokens, maxTokens) =>
      Promise.all(tokens.map((count) => timedRequest(engine, prompts.ofTokens(count), maxTokens))),
    goingOn: async (tokens, more) => {
      const begin = prompts.ofTokens(tokens);
      await timedRequest(engine, begin, 1);
      const answers: TimedAnswer[] = [];
      for (const count of more) answers.push(await timedRequest(engine, prompts.ofTokens(count, begin), 1));
      return answers;
    },
  };
  const measured = await measureEngine(ask, { ...options, maxPromptMs: MAX_PROMPT_MS });
  const fit = fitProfile(measured.prefill, measured.decode);
  return { profile: profileOf(engine, options, measured, fit), fit, measured };
}

function profileOf(engine: MeasuredEngine, options: FitOptions, measured: Measurements, fit: Fit): EngineProfile {
  const date = new Date(engine.clock.wall()).toISOString().slice(0, 10);
  const prefill = `${measured.prefill.length} prompts off by ${fit.prefillErrorPercent.toFixed(1)} %`;
  const decode = `${measured.decode.length} sets of answers by ${fit.decodeErrorPercent.toFixed(1)} %`;
  const { kvBytesPerToken } = options;
  return {
    name: options.name,
    about: `${engine.model} at ${engine.url}`,
    kind: "measured",
    errorPercent: Math.ceil(Math.max(LEAST_ERROR_PERCENT, fit.prefillErrorPercent, fit.decodeErrorPercent)),
    source: `cgn sim fit${options.quick ? " --quick" : ""}, ${date}: ${prefill}, ${decode} (root mean square)`,
    ...fit.costs,
    ...(kvBytesPerToken === undefined ? {} : { kvBytesPerToken }),
  };
}
