import type { WorkerId } from "../core/ids.ts";
import type { BlockName, Tier } from "../core/kv-event.ts";

/** A worker's handle in an index. Carries a generation: a handle of a dropped worker is refused, never mistaken for another's. */
export type WorkerSlot = number;

/** How an index treats one worker. */
export interface WorkerOptions {
  /** How many prompts `record()` keeps for it, least recently used out first. Default 16. */
  readonly historyEntries?: number;
}

/** Names of blocks. A `BigUint64Array` is taken as it is, other lists are converted: some ns a name. */
export type BlockNames = readonly BlockName[] | BigUint64Array;

/** A chain of blocks that an engine stored, ids already decoded to bytes. */
export interface StoredBlocks {
  /** `rootKey()` of adapter and salt. Used when `parent` is undefined; else the parent's root holds. */
  readonly root: string;
  /** The engine's name of the block before the first; undefined at the root. */
  readonly parent: BlockName | undefined;
  /** [n] the engine's names. */
  readonly names: BlockNames;
  /** All blocks' bytes, one after another. */
  readonly bytes: Uint8Array;
  /** [n] where each block ends in `bytes`. Not below the one before. */
  readonly ends: Uint32Array;
  /** Tokens a block. One value a worker: the last one told holds for all its blocks. */
  readonly blockTokens: number;
  readonly tier: Tier;
}

/** How many tokens the first `byteLength` bytes of a recorded prompt are. */
export interface TokenMark {
  readonly byteLength: number;
  readonly tokens: number;
}

/** A prompt (and its answer) that was sent to an engine without events. */
export interface RecordedPrompt {
  readonly root: string;
  readonly bytes: Uint8Array;
  /** Known token counts, in any order. Between two marks counts are interpolated by bytes; beyond, the last ratio holds. */
  readonly marks: readonly TokenMark[];
}

/** What one worker holds of a prompt. */
export interface PrefixMatch {
  slot: WorkerSlot;
  worker: WorkerId;
  /** Whole blocks; 0 for history. */
  blocks: number;
  /** Predicted `cached_tokens`. */
  tokens: number;
  /** Bytes of the prompt covered. */
  bytes: number;
  /** The slowest tier among the blocks counted. */
  tier: Tier;
  source: "events" | "history";
}

/** Figures of an index. */
export interface IndexStats {
  readonly workers: number;
  /** Runs (path-compressed edges) in memory. */
  readonly runs: number;
  /** (worker, block name) pairs held. */
  readonly blocks: number;
  /** The same by tier; a name that lies in two tiers is counted in both. */
  readonly blocksByTier: Readonly<Record<Tier, number>>;
  /** Those of `blocks` that do not count, see `setCounted()`. */
  readonly uncountedBlocks: number;
  /** Memory in bytes in use, everything a removal needs included. What was freed inside and waits to be used again is not. */
  readonly bytes: number;
  readonly capBytes: number;
  readonly historyEntries: number;
  /** Blocks not placed because their parent is not known. */
  readonly orphanBlocks: number;
  /** Removals of names that the worker did not hold. */
  readonly unknownRemovals: number;
  /** Blocks dropped to stay below the cap. */
  readonly evictedBlocks: number;
  readonly corrections: number;
  readonly lookups: number;
  /** Lookups where at least one worker held something. */
  readonly hits: number;
}

/**
 * Who holds how much of a prompt's prefix, keyed by the bytes of the rendered prompt.
 *
 * One index serves the workers of one model (one vocabulary, one template). All calls are synchronous and never throw for
 * what an engine says. A handle of a dropped worker makes every call on it a no-op.
 */
export interface PrefixIndex {
  /** Always a new handle, also for an id that was here before. */
  addWorker(id: WorkerId, options?: WorkerOptions): WorkerSlot;
  /** Forget a worker. Its entries stop counting at once; their memory comes back bit by bit. */
  dropWorker(slot: WorkerSlot): void;
  /** Forget all that a worker holds, blocks and history: its cache was reset, or it restarted. The handle stays good. */
  clearWorker(slot: WorkerSlot): void;
  workerOf(slot: WorkerSlot): WorkerId | undefined;
  /** Blocks that a worker holds now; one that lies in two tiers or has two names counts as in `stats().blocks`. 0 for a void handle. */
  blocksOf(slot: WorkerSlot): number;

  /**
   * Place a chain of blocks below its parent.
   * @returns false when the parent (or the worker) is not known: nothing was placed, the blocks are counted as orphans
   */
  store(slot: WorkerSlot, blocks: StoredBlocks): boolean;
  /** Remove blocks from one tier, or from all tiers when `tier` is undefined. Names not held are counted and ignored. */
  remove(slot: WorkerSlot, names: BlockNames, tier?: Tier): void;

  /**
   * Keep a prompt that was sent to (and answered by) an engine without events. It takes the place of entries that are a
   * prefix of it; beyond `historyEntries` the least recently used one goes.
   */
  record(slot: WorkerSlot, prompt: RecordedPrompt): void;

  /**
   * What each worker holds of `prompt`: the longest unbroken run of blocks from its start, and separately the longest
   * recorded prefix. A worker may appear twice (both sources); one that holds nothing does not appear. Unordered.
   *
   * Engines always compute a prompt's last token anew (vLLM 0.32 looks up at most `num_tokens - 1`; SGLang and llama.cpp do
   * likewise), so a block that ends with the prompt does not count, and a recorded prompt that is all of it counts a token less.
   * @param out - reused for the answer when given: its objects are overwritten
   */
  match(root: string, prompt: Uint8Array, out?: PrefixMatch[]): PrefixMatch[];

  /**
   * The engine reported fewer cached tokens than `match` said: what it holds beyond `reportedTokens` on this prompt's path
   * does not count again until it is stored (recorded) anew.
   * @param since - `clock` as it stood at the `match`: what was stored after it is left alone. Default: nothing was
   * @returns whether anything was taken back
   */
  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since?: number): boolean;

  /**
   * Say whether blocks count. One that does not is held, but `match()` stops before it; what is stored below it later does not
   * count either, until it is told to. Names of one worker at one place are independent: the place counts when one of
   * them does. Names not held are ignored; a name that is removed from all tiers is forgotten with its mark.
   */
  setCounted(slot: WorkerSlot, names: BlockNames, counted: boolean): void;

  /**
   * All that a worker holds, blocks and history, in chunks of at most 256 KiB for `load()` of an index with the same seed.
   * Chunks may be taken one by one with other calls in between: each is true when it is made, and what is held from the call to
   * the end is in one of them. So events from the call on, applied over the loaded chunks, give what is held at the end. Marks
   * of `setCounted()` are as they were when a chunk was made; what inherits them is told again with the events.
   * A chunk may be empty of blocks: it gives the caller a pause.
   */
  save(slot: WorkerSlot): Iterable<Uint8Array>;
  /**
   * Place what a chunk of `save()` says, chunks in their order. Blocks that cannot be placed (their parent is not there, no
   * memory) are counted as orphans or evicted, as in `store()`.
   * @returns false for a chunk that is damaged or of another seed or version: nothing of it was placed
   */
  load(slot: WorkerSlot, chunk: Uint8Array): boolean;

  /** The seed that it was made with: chunks of `save()` are for this seed. */
  readonly seed: number;

  /** Grows with each store and record; for `correct()`. */
  readonly clock: number;
  stats(): IndexStats;
}

/** How to make an index. */
export interface PrefixIndexOptions {
  /** Hard limit on memory in bytes; the least recently used runs go first. */
  readonly capBytes: number;
  /** Secret of the block hash, random per process, so that nobody can aim at collisions. 32 bits are used. */
  readonly seed: number;
}
