import type { CacheUse } from "../model/engine-model.ts";

/** A tool call that stands in an answer's place. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON; the tokens of the answer. */
  readonly arguments: string;
}

/** One of the answers to a request. */
export interface Choice {
  readonly index: number;
  /** ASCII; one token a character. */
  readonly text: string;
  readonly finish: "stop" | "length";
  readonly stopReason: string | null;
  /** Token ids; of several prompts in one request each has its own. */
  readonly prompt: readonly number[];
  /** Where it is computed (llama-server). */
  readonly slot?: number;
  /** Set: `text` is its arguments, and clients get a tool call. */
  readonly call?: ToolCall;
}

/** What a client wants to know of probabilities. */
export interface WantedLogprobs {
  /** Most likely tokens at each place, besides the one that was taken. */
  readonly top: number;
}

/** A generation request, understood: what the shapes of its answer are made from. */
export interface Generation {
  readonly id: string;
  /** Epoch seconds. */
  readonly created: number;
  /** The name that stands in the answer. */
  readonly model: string;
  readonly chat: boolean;
  /** The first one's prompt. */
  readonly prompt: readonly number[];
  /** At least one. */
  readonly choices: readonly Choice[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Each chunk has the usage so far (vLLM's `continuous_usage_stats`). */
  readonly usageInChunks: boolean;
  readonly returnTokenIds: boolean;
  readonly reportsCachedTokens: boolean;
  readonly lora: string;
  readonly salt: string;
  readonly logprobs?: WantedLogprobs;
  /** Probabilities of the prompt's tokens, with so many alternatives (vLLM). */
  readonly promptLogprobs?: number;
  /** The prompt's text, to stand before each answer. */
  readonly echo?: string;
  /** The request, for what only one engine looks at. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What is known of a generation while its answer is written. */
export interface Told {
  /** Of the first choice. */
  readonly use: CacheUse;
  /** Milliseconds from the submission to the first token, and from there on. */
  readonly promptMs: number;
  readonly predictedMs: number;
  /** Tokens so far, by choice. */
  readonly generated: readonly number[];
  /** Epoch milliseconds. */
  readonly now: number;
  /** What the engine adds to an answer that prepares another engine's (vLLM). */
  readonly transfer?: object;
}

/** One event of a stream: its name, where the protocol has names, and its data (an object goes out as JSON). */
export interface Frame {
  readonly event?: string;
  readonly data: object | string;
}

/** An engine's bodies for one kind of answer. A stream is for each choice `first`, one `token` each, `last`; then `end`. */
export interface AnswerShapes {
  whole(generation: Generation, told: Told): object;
  /** With the first token of a choice. */
  first(generation: Generation, choice: Choice, told: Told): readonly Frame[];
  /** The token at `index`. */
  token(generation: Generation, choice: Choice, index: number, told: Told): readonly Frame[];
  /** A choice is over. */
  last(generation: Generation, choice: Choice, told: Told): readonly Frame[];
  /** All are over. */
  end(generation: Generation, told: Told): readonly Frame[];
}

/** Of a stream of OpenAI chunks: what is said at each place; undefined where nothing is. */
export interface ChunkParts {
  whole(generation: Generation, told: Told): object;
  /** The role chunk. */
  open?(generation: Generation, choice: Choice, told: Told): object;
  /** `last` tells the token that ends an answer cut by length, where the engine puts the reason on it. */
  delta(generation: Generation, choice: Choice, index: number, last: boolean, told: Told): object;
  /** Undefined when the last delta said it all. */
  close(generation: Generation, choice: Choice, told: Told): object | undefined;
  usage(generation: Generation, told: Told): object;
}

export const DONE: Frame = { data: "[DONE]" };

/** Chunks as the OpenAI API streams them, `[DONE]` at the end. */
export function chunked(parts: ChunkParts): AnswerShapes {
  const frames = (data: object | undefined): Frame[] => (data === undefined ? [] : [{ data }]);
  return {
    whole: (g, told) => parts.whole(g, told),
    first: (g, choice, told) => frames(parts.open?.(g, choice, told)),
    token: (g, choice, index, told) => frames(parts.delta(g, choice, index, index === choice.text.length - 1, told)),
    last: (g, choice, told) => frames(parts.close(g, choice, told)),
    end: (g, told) => [...(g.includeUsage ? frames(parts.usage(g, told)) : []), DONE],
  };
}

/** Tokens of all prompts: n answers to one prompt count it once. */
export function promptTokens(g: Generation): number {
  const prompts = new Set(g.choices.map(({ prompt }) => prompt));
  return [...prompts].reduce((sum, prompt) => sum + prompt.length, 0);
}

/** Tokens of all answers. */
export const answerTokens = (g: Generation): number => g.choices.reduce((sum, { text }) => sum + text.length, 0);
