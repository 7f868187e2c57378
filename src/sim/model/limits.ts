import type { TierName, TierStore } from "./tier-store.ts";

/** A place where blocks outlive the device: host memory, a disk, a store shared by hosts. */
export interface TierLimits {
  readonly name: TierName;
  /** How many blocks it keeps; the least recently used go to the next tier, or are lost. */
  readonly blocks: number;
  /** Reading back into the device. */
  readonly gbPerS: number;
  /** Of one read, whatever its size. */
  readonly latencyMs: number;
  /**
   * When a block is written to it. `through` (LMCache, KVBM; HiCache's `write_through`): as soon as it is computed. `reused` (HiCache's
   * `write_through_selective`): when it is found in the cache a first time. `evicted` (HiCache's `write_back`; the default of every tier
   * but the first): when the tier above loses it.
   */
  readonly write?: "through" | "reused" | "evicted";
  /** The step waits for the read (LMCache in vLLM's own process); else other requests go on meanwhile. */
  readonly blocksStep?: boolean;
  /** One store that several engines read and write; else the engine has its own. */
  readonly shared?: TierStore;
}

export interface EngineLimits {
  /** KV blocks that may be used. */
  readonly blocks: number;
  readonly blockTokens: number;
  /** Tokens computed in one step, prompts and answers together. */
  readonly maxBatchedTokens: number;
  readonly maxSequences: number;
  readonly prefixCaching: boolean;
  /** `as-filled` (vLLM): a block of generated tokens is stored once full. `at-finish` (SGLang): with the request's end. */
  readonly generatedBlocks: "as-filled" | "at-finish";
  /** True (SGLang): a reset is published at once. False (vLLM): with the next step. */
  readonly publishesWhenIdle: boolean;
  /**
   * `mixed` (default; vLLM, llama.cpp): a step computes answers and, with what is left of the budget, prompts. `prefill-first` (SGLang
   * without `--enable-mixed-chunk`): while there are prompts to compute, answers stand still.
   */
  readonly batching?: "mixed" | "prefill-first";
  /**
   * What is lost first. `vllm` (default): the block least recently released, of one sequence the deepest first. `sglang`: the least
   * recently used leaf of the radix tree, whole. `llama_cpp`: each slot has one sequence, a store in RAM some more.
   */
  readonly eviction?: "vllm" | "sglang" | "llama_cpp";
  /** From the fastest on. Not with `llama_cpp`. */
  readonly tiers?: readonly TierLimits[];
  /** Bytes of keys and values that a token takes, for reads from tiers and transfers. Default: the profile's, else 131,072. */
  readonly kvBytesPerToken?: number;
  /** `RankedEngine` only: data-parallel ranks, each with all of these limits to itself. Default 1. */
  readonly dpRanks?: number;
  /** Each answer gains `1 + acceptance + acceptance² + … + acceptance^tokens` tokens a step, and `tokens` more are computed. */
  readonly speculative?: { readonly acceptance: number; readonly tokens: number };
  /** Says who it is; the model does what each request says (`hold`, `transfer`). */
  readonly role?: "both" | "prefill" | "decode";
  /** Reading a prompt's keys and values from a prefill engine. Default 10. */
  readonly transferGbPerS?: number;
  /** Of one transfer, whatever its size. Default 2. */
  readonly transferLatencyMs?: number;
  /** How long blocks are held for a decode that never reads them. Default 480,000 (vLLM's NIXL). */
  readonly holdMs?: number;
  /** Keyed requests: tell which keys are stored and removed (`blocks` outputs). Default false. */
  readonly reportsBlocks?: boolean;
  /** `llama_cpp`: how slots are chosen and what the store keeps. */
  readonly slots?: SlotLimits;
}

/** llama-server's slots (`maxSequences` of them). */
export interface SlotLimits {
  /** `--slot-prompt-similarity`: the share of the prompt that must lie in a slot for it to be chosen for that. Default 0.1. */
  readonly minShare?: number;
  /** Tokens that `--cache-ram` keeps; 0 for none. */
  readonly storeTokens: number;
  /** `--cache-idle-slots` with a unified KV cache: when a request starts, all other free slots are emptied into the store. */
  readonly emptiesFree: boolean;
  /** `--cache-idle-slots` (on by default where there is a store): the same, and without a unified KV cache the slots keep theirs. Default: as `emptiesFree`. */
  readonly savesFree?: boolean;
}
