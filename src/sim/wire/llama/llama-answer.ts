import type { Choice, Generation, Told } from "../answer-shapes.ts";
import { chatLogprob } from "../logprobs.ts";
import { settingsOf } from "./llama-settings.ts";

/** The parts of llama-server's answers, key for key (llama.cpp of October 2026, `../../testdata/llama`). */
export const FINGERPRINT = "b0-unknown";

const share = (value: number, of: number): number => (of === 0 ? 0 : value / of);

/** `timings`, of one choice. */
export function timings(choice: Choice, told: Told): object {
  const cached = told.use.cachedTokens;
  const prompt = choice.prompt.length - cached;
  const generated = told.generated[choice.index] ?? 0;
  // The first token comes with the prompt; between one token and itself there is no time.
  const gaps = Math.max(0, generated - 1);
  return {
    cache_n: cached,
    prompt_n: prompt,
    prompt_ms: told.promptMs,
    prompt_per_token_ms: share(told.promptMs, prompt),
    prompt_per_second: share(1000 * prompt, told.promptMs),
    predicted_n: generated,
    predicted_ms: told.predictedMs,
    predicted_per_token_ms: share(told.predictedMs, gaps),
    predicted_per_second: share(1000 * gaps, told.predictedMs),
  };
}

/** `usage`: of n answers the first one's figures only. */
export function usage(choice: Choice, told: Told): object {
  const generated = choice.text.length;
  const prompt = choice.prompt.length;
  return {
    completion_tokens: generated,
    prompt_tokens: prompt,
    total_tokens: prompt + generated,
    prompt_tokens_details: { cached_tokens: told.use.cachedTokens },
  };
}

/** `logprobs` of the tokens `from` to `to`, with ids; undefined where they were not asked for. */
export function logprobs(
  g: Generation,
  choice: Choice,
  from = 0,
  to = choice.text.length,
): readonly object[] | undefined {
  if (g.logprobs === undefined) return undefined;
  const { top } = g.logprobs;
  return Array.from({ length: to - from }, (_, i) => chatLogprob(choice.text, from + i, top, true));
}

/** Only what the request says of sampling; the limit is -1 where it says none. */
export function settings(g: Generation): object {
  const limit = g.body["max_completion_tokens"] ?? g.body["max_tokens"] ?? g.body["n_predict"];
  const facts = {
    chat: g.chat,
    limit: typeof limit === "number" ? Math.trunc(limit) : -1,
    probs: g.logprobs?.top ?? 0,
  };
  return settingsOf(g.body, facts, true);
}

/** What `/completion` answers with, and `__verbose` of a chat. */
export function nativeAnswer(g: Generation, choice: Choice, told: Told, text = choice.text): object {
  const wantsTokens = g.body["return_tokens"] === true && text !== "";
  const stopType = choice.stopReason !== null ? "word" : choice.finish === "stop" ? "eos" : "limit";
  return {
    index: choice.index,
    content: text,
    tokens: wantsTokens ? [...Buffer.from(text)] : [],
    id_slot: choice.slot ?? 0,
    stop: true,
    model: g.model,
    tokens_predicted: choice.text.length,
    tokens_evaluated: choice.prompt.length,
    generation_settings: settings(g),
    prompt: Buffer.from(Uint8Array.from(choice.prompt)).toString("utf8"),
    has_new_line: choice.text.includes("\n"),
    truncated: false,
    stop_type: choice.prompt.length === 0 ? "none" : stopType,
    stopping_word: choice.stopReason ?? "",
    tokens_cached: Math.max(0, choice.prompt.length + choice.text.length - 1),
    timings: timings(choice, told),
  };
}
