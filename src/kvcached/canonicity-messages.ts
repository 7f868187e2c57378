import type { TokenizerSource } from "../core/worker.ts";

/** Where the files of a model lie; workers of one model share a tokenizer. */
export interface CheckedModel {
  readonly tokenizer: TokenizerSource;
  readonly repos: readonly string[];
}

/** A stored chain on its way to the thread. */
export interface PostedChain {
  readonly parent: bigint | undefined;
  readonly names: BigUint64Array;
  readonly tokenIds: Uint32Array;
  readonly blockTokens: number;
  /** A router sent this text. */
  readonly certain: boolean;
}

/** To the thread; `slot` is the worker's handle in the index. */
export type ToThread =
  | { readonly type: "follow"; readonly slot: number; readonly model: CheckedModel }
  | { readonly type: "stored"; readonly slot: number; readonly chains: readonly PostedChain[] }
  /** End of a prompt with its whole answer. */
  | { readonly type: "answered"; readonly slot: number; readonly text: string }
  | { readonly type: "cleared" | "dropped"; readonly slot: number };

/** From the thread. */
export type FromThread =
  /** Its tokenizer is there; or why there is none. */
  | { readonly type: "ready"; readonly slot: number; readonly reason: string | undefined }
  | {
      readonly type: "verdict";
      readonly slot: number;
      readonly uncounted: BigUint64Array;
      /** Tokens compared, and tokens of which nothing can be said. */
      readonly checked: number;
      readonly unknown: number;
      /** Tokens of the messages that this answers. */
      readonly taken: number;
    }
  /** The engine tokenises prompts otherwise than we do: nothing is checked any more, and `recounted` count again. */
  | { readonly type: "unfit"; readonly slot: number; readonly recounted: BigUint64Array };
