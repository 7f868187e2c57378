import type { Generation } from "./answer-shapes.ts";

/** A made-up probability of a token at a place: the same for the same text. Natural logarithm. */
export interface MadeUp {
  readonly token: string;
  readonly id: number;
  readonly logprob: number;
}

const OTHERS = "etaoinshrdlu ";

/** The token that was taken, and the `top` most likely ones, that one among them. */
export function madeUp(
  text: string,
  index: number,
  top: number,
): { readonly taken: MadeUp; readonly top: readonly MadeUp[] } {
  const token = text[index] ?? "";
  // Between -0.01 and -0.64: more likely than anything else could be.
  const logprob = -0.01 * (1 + ((token.charCodeAt(0) + 7 * index) % 64));
  const taken = { token, id: token.charCodeAt(0), logprob };
  const others = [...OTHERS].filter((other) => other !== token).slice(0, Math.max(0, top - 1));
  const rest = others.map((other, i) => ({ token: other, id: other.charCodeAt(0), logprob: logprob - 1.5 - i }));
  return { taken, top: top <= 0 ? [] : [taken, ...rest] };
}

const bytesOf = (token: string): readonly number[] => [...Buffer.from(token)];

/** One entry of a chat's `logprobs.content`. */
export function chatLogprob(text: string, index: number, top: number, withId = false): object {
  const { taken, top: all } = madeUp(text, index, top);
  const shape = ({ id, token, logprob }: MadeUp) =>
    withId ? { id, token, bytes: bytesOf(token), logprob } : { token, logprob, bytes: bytesOf(token) };
  return { ...shape(taken), top_logprobs: all.map(shape) };
}

/** `logprobs` of a chat's whole answer, or of the tokens `from` to `to`; null when not asked for. */
export function chatLogprobs(g: Generation, text: string, from = 0, to = text.length): object | null {
  if (g.logprobs === undefined) return null;
  const { top } = g.logprobs;
  return { content: Array.from({ length: to - from }, (_, i) => chatLogprob(text, from + i, top)) };
}

/** `logprobs` of a completion: lists beside each other. The first token of an echoed prompt has none. */
export function completionLogprobs(
  g: Generation,
  text: string,
  from = 0,
  to = text.length,
  firstHasNone = false,
): object | null {
  if (g.logprobs === undefined) return null;
  const { top } = g.logprobs;
  const places = Array.from({ length: to - from }, (_, i) => ({
    at: from + i,
    ...madeUp(text, from + i, Math.max(1, top)),
  }));
  const none = (at: number): boolean => firstHasNone && at === 0;
  return {
    text_offset: places.map(({ at }) => at),
    token_logprobs: places.map(({ at, taken }) => (none(at) ? null : taken.logprob)),
    tokens: places.map(({ taken }) => taken.token),
    top_logprobs: places.map(({ at, top: all }) =>
      none(at) ? null : Object.fromEntries(all.map(({ token, logprob }) => [token, logprob])),
    ),
  };
}

/** vLLM's `prompt_logprobs`: for each token but the first, by id, the token and `count` alternatives. */
export function promptLogprobs(prompt: readonly number[], count: number): readonly (object | null)[] {
  const text = String.fromCharCode(...prompt.slice(0, 10_000));
  return prompt.map((id, i) => {
    if (i === 0) return null;
    const { taken, top } = madeUp(text, i, Math.max(1, count));
    return Object.fromEntries(
      top.map((one, rank) => [
        one === taken ? id : one.id,
        { logprob: one.logprob, rank: rank + 1, decoded_token: one.token },
      ]),
    );
  });
}
