import type { RecordedPrompt, TokenMark, WorkerSlot } from "./prefix-index.ts";

/** What `History.match()` tells: a worker, how many bytes of the prompt it is believed to hold, and their tokens. */
export type HistoryHit = (slot: WorkerSlot, bytes: number, tokens: number) => void;

/** Prompts that were sent to engines which publish no events, a bounded number a worker. */
export interface History {
  /** Prompts kept, all workers together. */
  readonly size: number;
  /** Memory in bytes, about. */
  readonly bytes: number;
  add(slot: WorkerSlot, maxEntries: number): void;
  drop(slot: WorkerSlot): void;
  clear(slot: WorkerSlot): void;
  /** A worker's prompts, oldest first. */
  entries(slot: WorkerSlot): readonly HistoryEntry[];
  /**
   * @param stamp - the index's clock; the lowest one is the oldest
   * @param limit - bytes of it that count, when a correction said so. Default: all
   */
  record(slot: WorkerSlot, prompt: RecordedPrompt, stamp: number, limit?: number): void;
  match(root: string, prompt: Uint8Array, hit: HistoryHit): void;
  /** Cut what a worker's prompts promise for this one down to the reported tokens. Those recorded after `since` are left. */
  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since: number): boolean;
  /** Let the oldest prompt of all workers go; false when there is none. */
  evictOldest(): boolean;
}

/** One kept prompt. */
export interface HistoryEntry {
  readonly slot: WorkerSlot;
  readonly root: string;
  readonly bytes: Uint8Array;
  readonly marks: readonly TokenMark[];
  readonly stamp: number;
  /** Bytes that still count: all of them, until a correction. */
  limit: number;
}
