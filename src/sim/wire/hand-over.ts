import type { CacheUse } from "../model/engine-model.ts";
import type { HandOff } from "../model/request.ts";
import type { Generation, Told } from "./answer-shapes.ts";
import type { Exchange } from "./exchange.ts";

/** What the hand-over between a prefill and a decode engine means for one request. */
export interface HandOver {
  readonly handOff?: HandOff;
  /** The answer ends after so many tokens (an SGLang prefill: 1). */
  readonly most?: number;
  /** Reported instead of what this engine found. */
  readonly cachedTokens?: number;
  /** Prefill side: what its answer says of the hand-over. */
  transferOf?(keys: readonly string[], use: CacheUse): object | undefined;
  /** Decode side: all is read. */
  transferred?(): void;
  /** All is computed. */
  done?(told: Told): void;
}

export interface Failed {
  readonly status: number;
  readonly body: object;
}

/** The side of an engine that hands prompts over, or takes them. */
export interface TransferSide {
  open(): Promise<void>;
  close(): Promise<void>;
  /**
   * A request is about to be computed. Resolves when that may begin; `gone`: never, since the client left first.
   */
  begin(generation: Generation, exchange: Exchange): Promise<HandOver | { readonly failed: Failed } | "gone">;
}
