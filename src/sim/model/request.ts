/** What a request may say of prefill → decode, on either side. */
export interface HandOff {
  /** Prefill side: its blocks stay in use after its end, until `release()` or the hold's expiry. */
  readonly hold?: boolean;
  /** Decode side: the prompt's keys and values are read from another engine, but for what is cached here. */
  readonly transfer?: boolean;
}

/** A request as the model sees it: what it will answer is settled beforehand. */
export interface ModelRequest extends HandOff {
  readonly id: string;
  /** At least one token id. */
  readonly prompt: readonly number[];
  /** Token ids that will be generated; at least one. */
  readonly output: readonly number[];
  /** Why it ends after the last of them. */
  readonly finish: "stop" | "length";
  readonly lora: string;
  readonly salt: string;
}

/**
 * Names a block together with all before it: equal keys mean equal prefixes. A number, so that traces of millions of requests
 * need no token ids; adapter and salt are part of it.
 */
export type BlockKey = number;

/**
 * A request without token ids, for virtual time. Its tokens are told in sum: outputs are `first` and `finished`, no `token`.
 */
export interface KeyedRequest extends HandOff {
  readonly id: string;
  /**
   * Keys of its blocks from the root on: at least the prompt's whole blocks, in order. One more may name the prompt's part-filled last
   * block (a trace's last hash), and, where that is whole, more those of the answer, which are stored once they are generated.
   */
  readonly blocks: readonly BlockKey[];
  /** At least 1. */
  readonly promptTokens: number;
  /** At least 1. */
  readonly outputTokens: number;
  /** Default `length`. */
  readonly finish?: "stop" | "length";
}

export type AnyRequest = ModelRequest | KeyedRequest;

export function isKeyed(request: AnyRequest): request is KeyedRequest {
  return "blocks" in request;
}
