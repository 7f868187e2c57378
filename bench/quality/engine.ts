import type { Clock } from "../../src/core/clock.ts";

/** Block names of a prompt: each names a block with all before it. */
export type BlockNames = readonly number[];

/** What an engine is asked to do. */
export interface EngineJob {
  /** `user` of the request. */
  readonly id: string;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly blocks: BlockNames;
  /** The prompt, where events must tell it. */
  readonly text?: string;
  /** The n-th token, from 1, is there. */
  onToken(count: number): void;
  onEnd(): void;
}

export interface EngineSize {
  readonly blockTokens: number;
  /** Blocks of memory. */
  readonly blocks: number;
  /** Tokens a second. */
  readonly prefillRate: number;
}

/** What came of a job. */
export interface EngineEntry {
  readonly id: string;
  readonly promptTokens: number;
  readonly blocks: number;
  readonly cachedBlocks: number;
  /** From the job's arrival at the engine; undefined: it was aborted before. */
  readonly ttftMs: number | undefined;
}

const STEP_MS = 4;
const DECODE_MS = 0.1;
/** Tokens of one step. */
const BUDGET = 512;
const MAX_RUNNING = 64;
/** A timer that comes later than this is not made up for. */
const CATCH_UP_MS = 50;

interface Running {
  readonly job: EngineJob;
  readonly arrivedAt: number;
  cachedBlocks: number;
  computed: number;
  /** Blocks of the prompt that are pinned in the cache. */
  inserted: number;
  /** Blocks of memory taken beyond those. */
  extra: number;
  generated: number;
  firstAt: number | undefined;
  aborted: boolean;
}

/**
 * A model of vLLM: continuous batching, chunked prefill, prefix cache with LRU eviction of blocks that nobody uses; blocks can be
 * found when they are computed. A step takes 4 ms, the prompt tokens' time, and 0.1 ms a decode. Runs on any clock.
 */
export class QualityEngine {
  readonly size: EngineSize;
  readonly entries: EngineEntry[] = [];
  /** Called with places of a job's blocks that are now in the cache, and with names of those that are not any more. */
  onStored: (job: EngineJob, places: readonly number[]) => void = () => {};
  onRemoved: (names: BlockNames) => void = () => {};
  busyMs = 0;
  steps = 0;
  /** How late timers were, milliseconds. */
  lagSumMs = 0;
  readonly #clock: Clock;
  /** In the order of use. */
  readonly #cache = new Map<number, true>();
  readonly #pins = new Map<number, number>();
  readonly #waiting: Running[] = [];
  readonly #running: Running[] = [];
  #extra = 0;
  #isBusy = false;
  #nextAt = 0;

  constructor(size: EngineSize, clock: Clock) {
    this.size = size;
    this.#clock = clock;
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get usedShare(): number {
    return (this.#pins.size + this.#extra) / this.size.blocks;
  }

  /** Leading blocks in the cache. */
  cachedBlocks(blocks: BlockNames): number {
    let depth = 0;
    while (depth < blocks.length && this.#cache.has(blocks[depth]!)) depth++;
    return depth;
  }

  /** Prompt tokens that are to be computed for those who are here. */
  pendingTokens(): number {
    let tokens = 0;
    for (const { job } of this.#waiting)
      tokens += job.promptTokens - this.cachedBlocks(job.blocks) * this.size.blockTokens;
    for (const { job, computed } of this.#running) tokens += Math.max(0, job.promptTokens - computed);
    return tokens;
  }

  /** @returns ends the job */
  submit(job: EngineJob): () => void {
    const now = this.#clock.now();
    const entry: Running = {
      job,
      arrivedAt: now,
      cachedBlocks: 0,
      computed: 0,
      inserted: 0,
      extra: 0,
      generated: 0,
      firstAt: undefined,
      aborted: false,
    };
    this.#waiting.push(entry);
    if (!this.#isBusy) {
      this.#isBusy = true;
      this.#nextAt = now;
      this.#step();
    }
    return () => {
      entry.aborted = true;
      const at = this.#waiting.indexOf(entry);
      if (at >= 0) this.#waiting.splice(at, 1);
    };
  }

  #step(): void {
    for (const each of this.#running.filter(({ aborted }) => aborted)) this.#end(each);
    const decodes = this.#running.filter(({ computed, job }) => computed >= job.promptTokens);
    const chunks = this.#chunks(BUDGET - decodes.length);
    if (decodes.length + chunks.length === 0) {
      this.#isBusy = false;
      return;
    }
    const tokens = chunks.reduce((sum, { count }) => sum + count, 0);
    const tookMs = STEP_MS + (tokens * 1000) / this.size.prefillRate + decodes.length * DECODE_MS;
    this.busyMs += tookMs;
    this.steps++;
    this.#nextAt = Math.max(this.#nextAt, this.#clock.now() - CATCH_UP_MS) + tookMs;
    this.#clock.after(Math.max(0, this.#nextAt - this.#clock.now()), () => {
      this.lagSumMs += Math.max(0, this.#clock.now() - this.#nextAt);
      for (const { of, count } of chunks) this.#compute(of, count);
      for (const each of decodes) this.#emit(each);
      this.#step();
    });
  }

  /** What is computed of prompts in the next step: those that began first, then those that wait, as memory allows. */
  #chunks(budget: number): { readonly of: Running; readonly count: number }[] {
    const chunks: { of: Running; count: number }[] = [];
    let left = budget;
    const take = (of: Running): void => {
      const count = Math.min(left, of.job.promptTokens - of.computed);
      chunks.push({ of, count });
      left -= count;
    };
    for (const each of this.#running) if (left > 0 && each.computed < each.job.promptTokens) take(each);
    while (left > 0 && this.#waiting.length > 0 && this.#running.length < MAX_RUNNING && this.#admitFirst()) {
      take(this.#running.at(-1)!);
    }
    return chunks;
  }

  /** False: there is no memory for it now. */
  #admitFirst(): boolean {
    const entry = this.#waiting[0]!;
    const { blocks, promptTokens, outputTokens } = entry.job;
    const { blockTokens } = this.size;
    let depth = this.cachedBlocks(blocks);
    // A prompt's last token is always computed.
    if (depth * blockTokens >= promptTokens) depth--;
    const need = Math.ceil((promptTokens + outputTokens) / blockTokens) - depth;
    for (let i = 0; i < depth; i++) this.#use(blocks[i]!);
    if (!this.#makeRoom(need)) {
      for (let i = 0; i < depth; i++) this.#unpin(blocks[i]!);
      return false;
    }
    this.#waiting.shift();
    entry.cachedBlocks = entry.inserted = depth;
    entry.computed = depth * blockTokens;
    entry.extra = need;
    this.#extra += need;
    this.#running.push(entry);
    return true;
  }

  /** Pin a cached block, as the one used last. */
  #use(name: number): void {
    this.#pins.set(name, (this.#pins.get(name) ?? 0) + 1);
    this.#touch(name);
  }

  #touch(name: number): void {
    if (this.#cache.delete(name)) this.#cache.set(name, true);
  }

  #unpin(name: number): void {
    const left = (this.#pins.get(name) ?? 0) - 1;
    if (left > 0) this.#pins.set(name, left);
    else this.#pins.delete(name);
  }

  #makeRoom(blocks: number): boolean {
    let over = this.#cache.size + this.#extra + blocks - this.size.blocks;
    if (over <= 0) return true;
    const removed: number[] = [];
    for (const name of this.#cache.keys()) {
      if (over <= 0) break;
      if (this.#pins.has(name)) continue;
      removed.push(name);
      over--;
    }
    if (over > 0) return false;
    for (const name of removed) this.#cache.delete(name);
    this.onRemoved(removed);
    return true;
  }

  #compute(entry: Running, count: number): void {
    const { job } = entry;
    entry.computed += count;
    const full = Math.min(job.blocks.length, Math.floor(entry.computed / this.size.blockTokens));
    const stored: number[] = [];
    for (; entry.inserted < full; entry.inserted++) {
      const name = job.blocks[entry.inserted]!;
      if (!this.#cache.has(name)) {
        this.#cache.set(name, true);
        stored.push(entry.inserted);
      }
      this.#extra--;
      entry.extra--;
      this.#pins.set(name, (this.#pins.get(name) ?? 0) + 1);
    }
    if (stored.length > 0) this.onStored(job, stored);
    if (entry.computed >= job.promptTokens) this.#emit(entry);
  }

  #emit(entry: Running): void {
    if (entry.aborted) return;
    entry.generated++;
    entry.firstAt ??= this.#clock.now();
    entry.job.onToken(entry.generated);
    if (entry.generated >= entry.job.outputTokens) this.#end(entry);
  }

  #end(entry: Running): void {
    const { job, firstAt, arrivedAt, cachedBlocks, aborted } = entry;
    const at = this.#running.indexOf(entry);
    if (at >= 0) this.#running.splice(at, 1);
    this.#extra -= entry.extra;
    // From the end, so that a prompt's tail is evicted before its head.
    for (let i = entry.inserted - 1; i >= 0; i--) {
      this.#unpin(job.blocks[i]!);
      this.#touch(job.blocks[i]!);
    }
    this.entries.push({
      id: job.id,
      promptTokens: job.promptTokens,
      blocks: job.blocks.length,
      cachedBlocks,
      ttftMs: firstAt === undefined ? undefined : firstAt - arrivedAt,
    });
    if (!aborted) job.onEnd();
  }
}
