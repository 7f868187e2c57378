import type { CacheUse } from "../model/engine-model.ts";

/** A generation request, understood: what the shapes of its answer are made from. */
export interface Generation {
  readonly id: string;
  /** Epoch seconds. */
  readonly created: number;
  /** The name that stands in the answer. */
  readonly model: string;
  readonly chat: boolean;
  readonly prompt: readonly number[];
  /** ASCII; one token a character. */
  readonly text: string;
  readonly finish: "stop" | "length";
  readonly stopReason: string | null;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly returnTokenIds: boolean;
  readonly reportsCachedTokens: boolean;
  readonly lora: string;
  readonly salt: string;
}

/** An engine's bodies for one kind of answer. Streams are: `open` (chats), one `delta` a token, `close`, `usage`. */
export interface AnswerShapes {
  whole(generation: Generation, use: CacheUse): object;
  /** The role chunk; undefined where there is none. */
  open(generation: Generation): object | undefined;
  /** `last` tells the chunk that ends an answer cut by length, where the engine puts the reason on it. */
  delta(generation: Generation, text: string, last: boolean): object;
  /** Undefined when the last delta said it all. */
  close(generation: Generation): object | undefined;
  usage(generation: Generation, use: CacheUse): object;
}
