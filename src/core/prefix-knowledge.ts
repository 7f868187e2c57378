import type { WorkerId } from "./ids.ts";
import type { Tier } from "./kv-event.ts";

/** A question of the router: who holds how much of this prompt? */
export interface MatchQuery {
  /** Model name as clients say it. */
  readonly model: string;
  /** What must be equal for KV to be shared besides the bytes: adapter and `cache_salt`, from `rootKey()`. */
  readonly root: string;
  /** The rendered prompt, exactly as the engine sees it before tokenising. */
  readonly prompt: Uint8Array;
  /** Written by who answers it: when, in milliseconds of his clock. */
  matchedMs?: number | undefined;
}

export interface WorkerMatch {
  readonly worker: WorkerId;
  /** Predicted `cached_tokens`. Exact for event sources: whole blocks. */
  readonly tokens: number;
  /** Whole blocks; 0 for history sources. */
  readonly blocks: number;
  /** Bytes of the prompt that are covered. */
  readonly bytes: number;
  /** The slowest tier among the blocks counted. */
  readonly tier: Tier;
  readonly source: "events" | "history";
}

/** What came of a request, told back once it is over. */
export interface Outcome {
  readonly worker: WorkerId;
  readonly epoch: number;
  readonly model: string;
  readonly root: string;
  readonly prompt: Uint8Array;
  /** Bytes the model generated, as they would stand in the next turn's prompt; undefined when not known. */
  readonly answer?: Uint8Array;
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  /** What the engine reported. */
  readonly cachedTokens?: number;
  /** What `match` had said for this worker. */
  readonly predictedTokens: number;
}

/** What became of a prediction once the engine said how many tokens were cached. */
export interface PredictionVerdict {
  /**
   * `in_flight`: what was predicted was right by the events known when the request was sent; an event that came later shows
   * what the engine said. `estimated`: the engine publishes no events, what it keeps is inferred.
   */
  readonly result: "exact" | "in_flight" | "estimated" | "unexplained";
  /** Which event it was and when it came, or why nothing explains it; "" when exact. */
  readonly reason: string;
}

/**
 * What the router asks and tells kvcached. In one process the answer of `match` is immediate; over the network it is a
 * promise. It never rejects for lack of knowledge: an empty list is an answer.
 */
export interface PrefixKnowledge {
  match(query: MatchQuery): readonly WorkerMatch[] | Promise<readonly WorkerMatch[]>;
  /** A request was sent to this worker: its prompt will be in the cache there (history sources count it at once). */
  sent(worker: WorkerId, query: MatchQuery): void;
  /** Nothing came of a request that was told by `sent`: it failed, or was refused. What was believed before it holds again. */
  unsent?(worker: WorkerId, query: MatchQuery): void;
  /**
   * @param judged - called once, some seconds later at most, with what became of the prediction; not at all where there was
   * no figure to compare with, or the worker is not known
   */
  observe(outcome: Outcome, judged?: (verdict: PredictionVerdict) => void): void;
}

/** The same root for an adapter. */
export function adapterRoot(root: string, lora: string): string {
  const [, salt] = root === "" ? ["", ""] : (JSON.parse(root) as [string, string]);
  return rootKey(lora, salt);
}

/** The root of the index for an adapter and a salt: prompts under different roots never match. Both "" for the base. */
export function rootKey(lora: string, salt: string): string {
  return lora === "" && salt === "" ? "" : JSON.stringify([lora, salt]);
}
