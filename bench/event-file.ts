import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import type { Trace, TraceRequest } from "./trace.ts";

/** Blocks of 16 tokens in a chunk of the trace. */
const CHUNK_BLOCKS = 32;
/** Chunks that one event removes at the end, as an engine's step might. */
const DRAIN_CHUNKS = 4;

export const ASKED = 0;
export const STORED = 1;
export const REMOVED = 2;

/** One call to an index. */
export interface Event {
  readonly kind: typeof ASKED | typeof STORED | typeof REMOVED;
  readonly worker: number;
  readonly parent: bigint | undefined;
  /** Stored and removed: the engine's names. */
  readonly names: BigUint64Array;
  /** Asked and stored: hashes of the blocks' content. */
  readonly contents: BigUint64Array;
}

export interface EventOptions {
  readonly workers: number;
  /** Chunks that a worker's cache holds, least recently used out first. */
  readonly cacheChunks: number;
  /** Stop storing when so many blocks are held; the trace is played again, with other contents, until then. Default: once. */
  readonly untilBlocks?: number;
  /** Remove everything at the end. */
  readonly drain?: boolean;
  /** Blocks that one event stores at most, as when they are generated; else all that a request adds. */
  readonly eventBlocks?: number;
}

/** What an event file has. */
export interface EventCounts {
  readonly stored: number;
  readonly removed: number;
  readonly held: number;
}

/** A worker's cache: chunks, least recently used first. */
type Cache = Set<number>;

/** Spreads a number over 32 bits (the steps of MurmurHash3). */
function spread(value: number, salt: number): number {
  let x = Math.imul(value ^ salt, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  x ^= x >>> 16;
  x = Math.imul(x ^ (salt >>> 7), 0x27d4eb2f);
  return (x ^ (x >>> 15)) >>> 0;
}

/**
 * Play a trace on engines behind a router that prefers who has the longest prefix, and write what they publish and are asked:
 *
 *     u32 operation (0 asked, 1 stored, 2 removed), u32 worker, u32 n, u32 whether a parent follows, u64 parent, then n times:
 *     asked: u64 content; stored: u64 name, u64 content; removed: u64 name. All little endian.
 */
export function writeEvents(path: string, trace: Trace, options: EventOptions): EventCounts {
  const out = new EventWriter(path);
  const caches = Array.from({ length: options.workers }, (): Cache => new Set());
  const loads = new Float64Array(options.workers);
  const until = options.untilBlocks ?? Number.POSITIVE_INFINITY;
  const passes = options.untilBlocks === undefined ? 1 : 1000;
  let stored = 0;
  let removed = 0;
  for (let pass = 0; pass < passes && stored - removed < until; pass++) {
    for (const request of trace.requests) {
      if (stored - removed >= until) break;
      const chunks = pass === 0 ? request : request.map((chunk) => chunk + pass * 1e6);
      out.asked(chunks);
      const worker = chooseWorker(caches, loads, chunks);
      const cache = caches[worker]!;
      stored += storeMissing(out, worker, cache, chunks, options.eventBlocks);
      removed += evict(out, worker, cache, options.cacheChunks);
    }
  }
  const held = stored - removed;
  if (options.drain === true) {
    for (const [worker, cache] of caches.entries()) {
      const chunks = [...cache];
      for (let at = 0; at < chunks.length; at += DRAIN_CHUNKS) out.removed(worker, chunks.slice(at, at + DRAIN_CHUNKS));
      removed += chunks.length * CHUNK_BLOCKS;
    }
  }
  out.close();
  return { stored, removed, held };
}

/** The worker with the longest prefix if that is worth it and it is not overrun, else the least loaded. */
function chooseWorker(caches: readonly Cache[], loads: Float64Array, chunks: TraceRequest): number {
  let best = -1;
  let bestDepth = 0;
  let idlest = 0;
  let mean = 0;
  for (const [worker, cache] of caches.entries()) {
    let depth = 0;
    while (depth < chunks.length && cache.has(chunks[depth]!)) depth++;
    if (depth > bestDepth || (depth === bestDepth && depth > 0 && loads[worker]! < loads[best]!)) {
      best = worker;
      bestDepth = depth;
    }
    if (loads[worker]! < loads[idlest]!) idlest = worker;
  }
  for (let worker = 0; worker < loads.length; worker++) {
    loads[worker]! *= 0.99;
    mean += loads[worker]! / loads.length;
  }
  const isWorth = best >= 0 && bestDepth / chunks.length > 0.3 && loads[best]! <= 2 * mean + 50;
  const worker = isWorth ? best : idlest;
  loads[worker]! += chunks.length;
  return worker;
}

function storeMissing(
  out: EventWriter,
  worker: number,
  cache: Cache,
  chunks: TraceRequest,
  eventBlocks = Number.POSITIVE_INFINITY,
): number {
  let depth = 0;
  while (depth < chunks.length && cache.has(chunks[depth]!)) depth++;
  const missing = chunks.slice(depth);
  if (missing.length > 0) out.stored(worker, depth === 0 ? undefined : chunks[depth - 1], missing, eventBlocks);
  // The tail is the first to go.
  for (const chunk of chunks.toReversed()) {
    cache.delete(chunk);
    cache.add(chunk);
  }
  return missing.length * CHUNK_BLOCKS;
}

function evict(out: EventWriter, worker: number, cache: Cache, most: number): number {
  const victims: number[] = [];
  for (const chunk of cache) {
    if (cache.size - victims.length <= most) break;
    victims.push(chunk);
  }
  for (const chunk of victims) cache.delete(chunk);
  if (victims.length > 0) out.removed(worker, victims);
  return victims.length * CHUNK_BLOCKS;
}

class EventWriter {
  readonly #file: number;
  #words = new Uint32Array(1 << 22);
  #at = 0;

  constructor(path: string) {
    this.#file = openSync(path, "w");
  }

  asked(chunks: TraceRequest): void {
    this.#head(ASKED, 0, chunks.length * CHUNK_BLOCKS, undefined, 2);
    for (const chunk of chunks) for (let i = 0; i < CHUNK_BLOCKS; i++) this.#content(chunk * CHUNK_BLOCKS + i);
  }

  stored(worker: number, parent: number | undefined, chunks: TraceRequest, eventBlocks: number): void {
    const blocks = chunks.flatMap((chunk) => Array.from({ length: CHUNK_BLOCKS }, (_, i) => chunk * CHUNK_BLOCKS + i));
    let before = parent === undefined ? undefined : parent * CHUNK_BLOCKS + CHUNK_BLOCKS - 1;
    for (let at = 0; at < blocks.length; at += eventBlocks) {
      const some = blocks.slice(at, at + eventBlocks);
      this.#head(STORED, worker, some.length, before, 4);
      for (const block of some) {
        this.#name(block);
        this.#content(block);
      }
      before = some.at(-1);
    }
  }

  /** Each chunk's last block first, as engines free them. */
  removed(worker: number, chunks: TraceRequest): void {
    this.#head(REMOVED, worker, chunks.length * CHUNK_BLOCKS, undefined, 2);
    for (const chunk of chunks) for (let i = CHUNK_BLOCKS - 1; i >= 0; i--) this.#name(chunk * CHUNK_BLOCKS + i);
  }

  close(): void {
    this.#flush();
    closeSync(this.#file);
  }

  #head(kind: number, worker: number, blocks: number, parent: number | undefined, wordsEach: number): void {
    const words = 6 + blocks * wordsEach;
    if (this.#at + words > this.#words.length) this.#flush();
    if (words > this.#words.length) this.#words = new Uint32Array(2 * words);
    this.#words.set([kind, worker, blocks, parent === undefined ? 0 : 1], this.#at);
    this.#at += 4;
    if (parent === undefined) {
      this.#words.fill(0, this.#at, this.#at + 2);
      this.#at += 2;
    }
    if (parent !== undefined) this.#name(parent);
  }

  #content(block: number): void {
    this.#words[this.#at++] = spread(block, 0x55aa1177);
    this.#words[this.#at++] = spread(block, 0x0f1e2d3c);
  }

  #name(block: number): void {
    this.#words[this.#at++] = spread(block, 0x2468ace1);
    this.#words[this.#at++] = spread(block, 0x13579bdf);
  }

  #flush(): void {
    writeSync(this.#file, new Uint8Array(this.#words.buffer, 0, this.#at * 4));
    this.#at = 0;
  }
}

/** Read an event file. */
export function readEvents(path: string): Event[] {
  const file = readFileSync(path);
  const words = new Uint32Array(file.buffer, file.byteOffset, file.length / 4);
  const longs = new BigUint64Array(file.buffer, file.byteOffset, file.length / 8);
  const none = new BigUint64Array();
  const events: Event[] = [];
  for (let at = 0; at < words.length; ) {
    const kind = words[at]! as Event["kind"];
    const count = words[at + 2]!;
    const parent = words[at + 3] === 1 ? longs[at / 2 + 2] : undefined;
    const from = at / 2 + 3;
    const size = kind === STORED ? 2 * count : count;
    const list = longs.slice(from, from + size);
    const every = (odd: number) => BigUint64Array.from({ length: count }, (_, i) => list[2 * i + odd]!);
    events.push({
      kind,
      worker: words[at + 1]!,
      parent,
      names: kind === ASKED ? none : kind === STORED ? every(0) : list,
      contents: kind === ASKED ? list : kind === STORED ? every(1) : none,
    });
    at += 6 + 2 * size;
  }
  return events;
}
