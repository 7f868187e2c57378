import { workerId } from "../src/core/ids.ts";
import type { PrefixIndex, PrefixMatch, StoredBlocks } from "../src/kvindex/prefix-index.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const BLOCK_TOKENS = 16;
const BLOCK_BYTES = 64;
const PROMPT_BLOCKS = 512;
/** The first blocks of a prompt are one of these many system prompts, held by all workers. */
const SHARED_BLOCKS = 64;
const SYSTEM_PROMPTS = 20;
/** Each prompt has a second version that parts from it here: runs are split. */
const BRANCH_AT = 384;
/** Blocks an event, as an engine's step publishes them. */
const EVENT_BLOCKS = 32;
const HELD_BLOCKS = 1_000_000;
const CAP_BYTES = 2 * 1024 ** 3;

/** Random words, the same on every machine (xorshift32). */
function generator(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** A prompt as bytes, and the engine's names of its blocks. */
interface Chain {
  readonly bytes: Uint8Array;
  /** Not as bigints: a million live objects would be the garbage collector's work, not the index's. */
  readonly names: BigUint64Array;
}

/** Text of a conversation: letters and spaces. */
function randomChain(blocks: number, next: () => number): Chain {
  const bytes = Uint8Array.from({ length: blocks * BLOCK_BYTES }, () => 0x20 + (next() % 90));
  const names = BigUint64Array.from({ length: blocks }, () => (BigInt(next()) << 32n) | BigInt(next()));
  return { bytes, names };
}

function join(a: Chain, blocks: number, b: Chain): Chain {
  const bytes = new Uint8Array(blocks * BLOCK_BYTES + b.bytes.length);
  bytes.set(a.bytes.subarray(0, blocks * BLOCK_BYTES));
  bytes.set(b.bytes, blocks * BLOCK_BYTES);
  const names = new BigUint64Array(blocks + b.names.length);
  names.set(a.names.subarray(0, blocks));
  names.set(b.names, blocks);
  return { bytes, names };
}

/** One call to the index. */
interface Event {
  readonly worker: number;
  readonly names: BigUint64Array;
  readonly blocks: Omit<StoredBlocks, "names">;
}

const stored = ({ names, blocks }: Event): StoredBlocks => ({ ...blocks, names: [...names] });

interface Workload {
  readonly prompts: readonly Uint8Array[];
  readonly events: readonly Event[];
  readonly blocks: number;
}

function storeEvents(worker: number, chain: Chain, from: number): Event[] {
  const events: Event[] = [];
  for (let at = from; at < chain.names.length; at += EVENT_BLOCKS) {
    const names = chain.names.subarray(at, at + EVENT_BLOCKS);
    const bytes = chain.bytes.slice(at * BLOCK_BYTES, (at + names.length) * BLOCK_BYTES);
    const ends = Uint32Array.from(names, (_, i) => (i + 1) * BLOCK_BYTES);
    const parent = at === 0 ? undefined : chain.names[at - 1];
    events.push({
      worker,
      names,
      blocks: { root: "", parent, bytes, ends, blockTokens: BLOCK_TOKENS, tier: "device" },
    });
  }
  return events;
}

/** Events until a million (worker, block) pairs are held, and the prompts to ask for. */
function workload(workers: number): Workload {
  const next = generator(workers);
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => randomChain(SHARED_BLOCKS, next));
  const events: Event[] = [];
  for (let worker = 0; worker < workers; worker++) {
    for (const system of systems) events.push(...storeEvents(worker, system, 0));
  }
  let blocks = workers * SYSTEM_PROMPTS * SHARED_BLOCKS;
  const prompts: Uint8Array[] = [];
  for (let n = 0; blocks < HELD_BLOCKS; n++) {
    const system = systems[n % SYSTEM_PROMPTS]!;
    const first = join(system, SHARED_BLOCKS, randomChain(PROMPT_BLOCKS - SHARED_BLOCKS, next));
    const second = join(first, BRANCH_AT, randomChain(PROMPT_BLOCKS - BRANCH_AT, next));
    events.push(...storeEvents(n % workers, first, SHARED_BLOCKS), ...storeEvents(n % workers, second, BRANCH_AT));
    blocks += 2 * PROMPT_BLOCKS - SHARED_BLOCKS - BRANCH_AT;
    // One byte more than the blocks: a block that ends with the prompt does not count.
    prompts.push(join(first, PROMPT_BLOCKS, { bytes: Uint8Array.of(0x20), names: new BigUint64Array() }).bytes);
    prompts.push(join(second, PROMPT_BLOCKS, { bytes: Uint8Array.of(0x20), names: new BigUint64Array() }).bytes);
  }
  return { prompts, events, blocks };
}

/** Milliseconds of CPU that `work` took on this thread: other processes on the machine do not count. */
function cpuMs(work: () => void): number {
  const start = cpuNow();
  work();
  const end = cpuNow();
  return (end.user + end.system - start.user - start.system) / 1000;
}

/** Node 22 tells the whole process's CPU time only. */
const cpuNow = (): NodeJS.CpuUsage => process.threadCpuUsage?.() ?? process.cpuUsage();

interface Round {
  readonly storeNs: number;
  readonly removeNs: number;
  readonly matchUs: readonly number[];
  readonly bytesPerBlock: number;
}

function measure(workers: number, { prompts, events, blocks }: Workload): Round {
  const index = createPrefixIndex({ capBytes: CAP_BYTES, seed: 1 });
  const slots = Array.from({ length: workers }, (_, i) => index.addWorker(workerId(`w${i}`)));
  const stores = events.map((event) => ({ slot: slots[event.worker]!, blocks: stored(event) }));
  const storeMs = cpuMs(() => {
    for (const { slot, blocks } of stores) index.store(slot, blocks);
  });
  const { bytes, blocks: held } = index.stats();
  if (held !== blocks) throw new Error(`Expected ${blocks} blocks in the index, got ${held}`);
  const matchUs = [matchAll(index, prompts), matchAll(index, prompts), matchAll(index, prompts)].slice(1);
  // As engines evict: the tail first.
  const removals = stores.map(({ slot, blocks }) => ({ slot, names: blocks.names.toReversed() })).reverse();
  const removeMs = cpuMs(() => {
    for (const { slot, names } of removals) index.remove(slot, names);
  });
  if (index.stats().blocks !== 0) throw new Error("Expected an empty index after all removals");
  const perBlock = (ms: number) => (ms * 1e6) / blocks;
  return { storeNs: perBlock(storeMs), removeNs: perBlock(removeMs), matchUs, bytesPerBlock: bytes / blocks };
}

/** Milliseconds of the longest single call while the index fills. The timer costs too much to measure it along. */
function longestCall(workers: number, events: readonly Event[]): number {
  const index = createPrefixIndex({ capBytes: CAP_BYTES, seed: 1 });
  const slots = Array.from({ length: workers }, (_, i) => index.addWorker(workerId(`w${i}`)));
  let longest = 0;
  for (const event of events) {
    const blocks = stored(event);
    const start = performance.now();
    const cpu = cpuMs(() => index.store(slots[event.worker]!, blocks));
    // The wall clock counts other processes' turns, the CPU clock ticks in steps of some ms: the truth is below both.
    longest = Math.max(longest, Math.min(cpu, performance.now() - start));
  }
  return longest;
}

/** Mean microseconds of CPU a match, each prompt once in an order that caches do not foresee. */
function matchAll(index: PrefixIndex, prompts: readonly Uint8Array[]): number {
  const out: PrefixMatch[] = [];
  const stride = 761; // prime
  const ms = cpuMs(() => {
    for (let i = 0; i < prompts.length; i++) {
      const matches = index.match("", prompts[(i * stride) % prompts.length]!, out);
      if (!matches.some((match) => match.blocks === PROMPT_BLOCKS)) throw new Error("Expected a full match");
    }
  });
  return (ms * 1000) / prompts.length;
}

/**
 * The prefix index at a million blocks of 16 tokens (64 bytes): CPU time to store and remove a block, to match a prompt of
 * 512 blocks, memory a block, and the longest call.
 */
export async function run({ json }: { readonly json: boolean }): Promise<BenchResult> {
  const results: BenchFigure[] = [];
  for (const workers of [1, 16, 64]) {
    const load = workload(workers);
    const rounds = [measure(workers, load), measure(workers, load), measure(workers, load)];
    const name = `${workers} ${workers === 1 ? "worker" : "workers"}, ${load.blocks} blocks`;
    const of = (pick: (round: Round) => number) => rounds.map(pick);
    results.push(
      figure(
        name,
        "store",
        "ns/block",
        of((round) => round.storeNs),
      ),
      figure(
        name,
        "store",
        "blocks/s",
        of((round) => 1e9 / round.storeNs),
      ),
      figure(
        name,
        "remove",
        "ns/block",
        of((round) => round.removeNs),
      ),
      figure(
        name,
        "remove",
        "blocks/s",
        of((round) => 1e9 / round.removeNs),
      ),
      figure(
        name,
        "match of 512 blocks",
        "us",
        rounds.flatMap((round) => round.matchUs),
      ),
      figure(
        name,
        "memory",
        "bytes/block",
        of((round) => round.bytesPerBlock),
      ),
      figure(
        name,
        "longest call",
        "ms",
        rounds.map(() => longestCall(workers, load.events)),
      ),
    );
  }
  const result: BenchResult = { bench: "index", results, machine: machine() };
  printResult(result, json);
  return result;
}
