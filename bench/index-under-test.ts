import { workerId } from "../src/core/ids.ts";
import type { PrefixMatch } from "../src/kvindex/prefix-index.ts";
import { createPrefixIndex, type RunPrefixIndex } from "../src/kvindex/run-index.ts";
import { type Event, STORED } from "./event-file.ts";

const CAP_BYTES = 4 * 1024 ** 3;
const BLOCK_TOKENS = 16;
const BLOCK_BYTES = 64;
/** Prompts of bytes that are kept at once: 32 KiB each. */
const MOST_BYTE_PROMPTS = 2000;
const LEAST_QUESTIONS = 30_000;

/** What the index is given: hashes of blocks, or their bytes to hash itself. */
export type Input = "hashes" | "bytes";

/**
 * Node 22 tells the whole process's CPU time only. Asked for that, the kernel brings the thread's up to date, which else goes in
 * steps of some ms.
 */
function cpuNow(): NodeJS.CpuUsage {
  const all = process.cpuUsage();
  return process.threadCpuUsage?.() ?? all;
}

/** Milliseconds of CPU that `work` took on this thread: other processes on the machine do not count. */
export function cpuMs(work: () => void): number {
  const start = cpuNow();
  work();
  const end = cpuNow();
  return (end.user + end.system - start.user - start.system) / 1000;
}

/** An index, and its workers by number. */
export class IndexUnderTest {
  readonly #index: RunPrefixIndex;
  readonly #slots: readonly number[];
  readonly #input: Input;
  readonly #out: PrefixMatch[] = [];

  constructor(workers: number, input: Input) {
    this.#index = createPrefixIndex({ capBytes: CAP_BYTES, seed: 1 });
    this.#slots = Array.from({ length: workers }, (_, i) => this.#index.addWorker(workerId(`w${i}`)));
    this.#input = input;
  }

  /** Apply events; nanoseconds of CPU a block. */
  apply(events: readonly Event[]): number {
    let blocks = 0;
    let ms = 0;
    // Bytes are made a few events at a time, outside the measured time.
    for (let at = 0; at < events.length; at += 256) {
      const some = events.slice(at, at + 256);
      for (const { names } of some) blocks += names.length;
      const calls = some.map((event) => this.call(event));
      ms += cpuMs(() => {
        for (const call of calls) call();
      });
    }
    return (ms * 1e6) / blocks;
  }

  /** The call that an event is, its arguments made beforehand. */
  call({ kind, worker, parent, names, contents }: Event): () => void {
    const slot = this.#slots[worker]!;
    if (kind !== STORED) return () => this.#index.remove(slot, names);
    const blocks = { root: "", parent, names, blockTokens: BLOCK_TOKENS, tier: "device" } as const;
    if (this.#input === "hashes") {
      const hashed = { ...blocks, hashes: contents };
      return () => this.#index.storeHashed(slot, hashed);
    }
    const bytes = asBytes(contents, 0);
    const ends = Uint32Array.from(contents, (_, i) => (i + 1) * BLOCK_BYTES);
    return () => this.#index.store(slot, { ...blocks, bytes, ends });
  }

  /** Ask for each prompt, over and over (or once, as peers are asked); mean microseconds of CPU. */
  ask(prompts: readonly BigUint64Array[], once = false): number {
    const isHashed = this.#input === "hashes";
    // One byte more than the blocks: a block that ends with the prompt does not count.
    const asked = isHashed ? prompts : prompts.slice(0, MOST_BYTE_PROMPTS).map((prompt) => asBytes(prompt, 1));
    const rounds = once ? 1 : Math.max(1, Math.ceil(LEAST_QUESTIONS / asked.length));
    const ms = cpuMs(() => {
      for (let round = 0; round < rounds; round++) {
        for (const prompt of asked) {
          if (prompt instanceof BigUint64Array) this.#index.matchHashed("", prompt, this.#out);
          else this.#index.match("", prompt, this.#out);
        }
      }
    });
    return (ms * 1000) / (rounds * asked.length);
  }

  blocks(): number {
    return this.#index.stats().blocks;
  }

  bytesPerBlock(): number {
    const { bytes, blocks } = this.#index.stats();
    return bytes / blocks;
  }

  /** All chunks of a worker, and the longest that one took. */
  save(worker: number): { readonly chunks: Uint8Array[]; readonly longestMs: number } {
    const chunks: Uint8Array[] = [];
    let longestMs = 0;
    const save = this.#index.save(this.#slots[worker]!)[Symbol.iterator]();
    for (;;) {
      const start = performance.now();
      let chunk: Uint8Array | undefined;
      const cpu = cpuMs(() => {
        const next = save.next();
        chunk = next.done === true ? undefined : next.value;
      });
      longestMs = Math.max(longestMs, Math.min(cpu, performance.now() - start));
      if (chunk === undefined) return { chunks, longestMs };
      chunks.push(chunk);
    }
  }

  load(worker: number, chunks: readonly Uint8Array[]): void {
    for (const chunk of chunks) {
      if (!this.#index.load(this.#slots[worker]!, chunk)) throw new Error("Expected a sound chunk");
    }
  }
}

/** Each block as 64 bytes that say its content, and some more bytes behind. */
function asBytes(contents: BigUint64Array, more: number): Uint8Array {
  const words = new BigUint64Array(contents.length * (BLOCK_BYTES / 8) + Math.ceil(more / 8));
  for (let i = 0; i < contents.length; i++) words.fill(contents[i]!, 8 * i, 8 * i + 8);
  return new Uint8Array(words.buffer, 0, contents.length * BLOCK_BYTES + more);
}

/** Milliseconds of the longest single call while an index fills. */
export function longestCall(index: IndexUnderTest, events: readonly Event[]): number {
  const calls = events.map((event) => index.call(event));
  let longest = 0;
  for (const call of calls) {
    const start = performance.now();
    const cpu = cpuMs(call);
    // The wall clock counts other processes' turns.
    longest = Math.max(longest, Math.min(cpu, performance.now() - start));
  }
  return longest;
}
