import { workerId } from "../src/core/ids.ts";
import type { Tier } from "../src/core/kv-event.ts";
import { createNaiveIndex } from "../src/kvindex/naive-index.ts";
import type { IndexStats, PrefixIndex, PrefixMatch } from "../src/kvindex/prefix-index.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";

const DEFAULT_OPS = 1_000_000;
/** Operations until both indexes are made anew, with another seed and another mix. */
const LIFE = 5_000;
const MAX_WORKERS = 34;
const TIERS: readonly Tier[] = ["device", "host", "disk", "shared"];
const ROOTS = ["", "", "", "salt", "lora"];
const encoder = new TextEncoder();

/** Random numbers, the same on every machine (xorshift32). */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 1;
  }

  below(limit: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % limit;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

/** A run index and its plain twin, which are told and asked the same. */
class Twins {
  readonly #random: Random;
  #pair: readonly [PrefixIndex, PrefixIndex];
  #slots: (readonly [number, number])[] = [];
  #texts: readonly string[] = [];
  /** Names given lately. */
  #names: bigint[] = [];
  #chains: Uint8Array[] = [];
  /** Texts of long chains without parent, of which others are beginnings. */
  #documents: (readonly string[])[] = [];
  #longest = 12;
  #tiers: readonly Tier[] = TIERS;
  /** Chance of one in so many that a removal takes a known name from a tree's middle, or a store repeats one. */
  #mischief = 10;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#pair = [createPrefixIndex({ capBytes: 1 << 30, seed }), createNaiveIndex(seed)];
    this.renew(seed);
  }

  renew(seed: number): void {
    const random = this.#random;
    this.#pair = [createPrefixIndex({ capBytes: 1 << 30, seed }), createNaiveIndex(seed)];
    this.#slots = Array.from({ length: 1 + random.below(MAX_WORKERS) }, (_, i) => this.#add(i));
    const long = Array.from({ length: 4 }, (_, i) => `${i} text of a block of ${"some ".repeat(random.below(9))}`);
    this.#texts = random.below(2) === 0 ? ["a", "a", "b", "ab", "aa", ""] : [...long, "a", "b"];
    this.#names = [0n];
    this.#chains = [];
    this.#documents = [];
    this.#longest = random.below(10) === 0 ? 150 : 12;
    this.#tiers = random.below(2) === 0 ? ["device"] : TIERS;
    this.#mischief = 2 + random.below(40);
  }

  #add(i: number): readonly [number, number] {
    const [a, b] = this.#pair.map((index) => index.addWorker(workerId(`w${i}`), { historyEntries: 2 }));
    return [a!, b!];
  }

  /** Do one random thing to both; throws when they differ. */
  step(): void {
    const random = this.#random;
    const worker = random.below(this.#slots.length);
    const kind = random.below(1000);
    if (kind < 420) this.#store(worker);
    else if (kind < 640) this.#remove(worker);
    else if (kind < 860) this.#ask();
    else if (kind < 920) this.#count(worker);
    else if (kind < 960) this.#correct(worker);
    else if (kind < 985) this.#record(worker);
    else if (kind < 990) this.#both((index, side) => index.clearWorker(this.#slots[worker]![side]));
    else if (kind < 994) this.#replace(worker, false);
    else if (kind < 998) this.#replace(worker, true);
    else this.#compareStats();
  }

  #both(call: (index: PrefixIndex, side: 0 | 1) => unknown): void {
    const a = call(this.#pair[0], 0);
    const b = call(this.#pair[1], 1);
    if (JSON.stringify(a) !== JSON.stringify(b)) {
      throw new Error(`The run index says ${JSON.stringify(a)}, its twin ${JSON.stringify(b)}`);
    }
  }

  #name(): bigint {
    const lately = Math.min(this.#names.length, 200);
    return this.#names[this.#names.length - 1 - this.#random.below(lately)]!;
  }

  #chain(isWhole: boolean): readonly string[] {
    const random = this.#random;
    const fresh = () =>
      Array.from({ length: random.below(isWhole ? this.#longest : 12) }, () => random.of(this.#texts));
    if (!isWhole || this.#longest <= 12) return fresh();
    if (this.#documents.length < 5) this.#documents.push(fresh());
    const document = random.of(this.#documents);
    const texts = document.slice(0, random.below(document.length + 1));
    return random.below(3) > 0 ? texts : [...texts, ...fresh()];
  }

  #store(worker: number): void {
    const random = this.#random;
    const parent = random.below(3) > 0 ? this.#name() : undefined;
    const texts = this.#chain(parent === undefined);
    let before = parent ?? 1n;
    const names = texts.map((text) => {
      const odd = random.below(4 * this.#mischief);
      // As engines do: the name says the parent and the text. Now and then another one for the same, or one that is taken.
      before = odd === 0 ? this.#name() : BigInt.asUintN(64, before * 6364136223846793005n + hashOf(text, odd === 1));
      this.#names.push(before);
      return before;
    });
    const bytes = encoder.encode(texts.join(""));
    let end = 0;
    const ends = Uint32Array.from(texts, (text) => (end += text.length));
    const tier = random.below(3) === 0 ? random.of(this.#tiers) : "device";
    const root = random.of(ROOTS);
    const list = random.below(2) === 0 ? names : BigUint64Array.from(names);
    const blocks = { root, parent, names: list, bytes, ends, blockTokens: 4 + (worker % 2), tier };
    this.#both((index, side) => index.store(this.#slots[worker]![side], blocks));
    if (parent === undefined && bytes.length > 0) this.#chains.push(bytes);
    if (this.#chains.length > 500) this.#chains.splice(0, 250);
  }

  #remove(worker: number): void {
    const random = this.#random;
    const tier = random.below(3) === 0 ? random.of(this.#tiers) : undefined;
    const newest = this.#names.length - 1 - random.below(Math.min(this.#names.length, 300));
    const inRow = Array.from({ length: 1 + random.below(8) }, (_, i) => this.#names[Math.max(0, newest - i)]!);
    const names = random.below(this.#mischief) === 0 ? [this.#name(), this.#name()] : inRow;
    this.#both((index, side) => index.remove(this.#slots[worker]![side], names, tier));
  }

  #count(worker: number): void {
    const names = [this.#name(), this.#name()];
    const counted = this.#random.below(2) === 0;
    this.#both((index, side) => index.setCounted(this.#slots[worker]![side], names, counted));
  }

  #prompt(): Uint8Array {
    const random = this.#random;
    const chain = this.#chains.length > 0 && random.below(4) > 0 ? random.of(this.#chains) : new Uint8Array();
    const more = encoder.encode(Array.from({ length: random.below(12) }, () => random.of(this.#texts)).join(""));
    const prompt = new Uint8Array(chain.length + more.length + 1);
    prompt.set(chain);
    prompt.set(more, chain.length);
    prompt[prompt.length - 1] = 0x7a;
    return prompt;
  }

  #ask(): void {
    const prompt = this.#prompt();
    const root = this.#random.of(ROOTS);
    this.#both((index) => canonical(index.match(root, prompt)));
  }

  #correct(worker: number): void {
    const prompt = this.#prompt();
    const root = this.#random.of(ROOTS);
    const tokens = this.#random.below(40);
    this.#both((index, side) => index.correct(this.#slots[worker]![side], root, prompt, tokens));
  }

  #record(worker: number): void {
    const bytes = this.#prompt();
    const marks = [{ byteLength: this.#random.below(bytes.length + 1), tokens: this.#random.below(30) }];
    this.#both((index, side) => index.record(this.#slots[worker]![side], { root: "", bytes, marks }));
  }

  /** Put a new worker in the place of one, empty or with what was saved of it. */
  #replace(worker: number, isSaved: boolean): void {
    const before = this.#slots[worker]!;
    const saved = this.#pair.map((index, side) => (isSaved ? [...index.save(before[side]!)] : []));
    this.#both((index, side) => index.dropWorker(before[side]));
    this.#slots[worker] = this.#add(worker);
    this.#both((index, side) => saved[side]!.every((chunk) => index.load(this.#slots[worker]![side], chunk)));
  }

  #compareStats(): void {
    this.#both(
      (index) => ({ ...index.stats(), runs: 0, bytes: 0, capBytes: 0, evictedBlocks: 0 }) satisfies IndexStats,
    );
  }
}

function hashOf(text: string, isOther: boolean): bigint {
  let hash = isOther ? 77n : 1n;
  for (let i = 0; i < text.length; i++) hash = hash * 31n + BigInt(text.charCodeAt(i) + 1);
  return hash;
}

function canonical(matches: readonly PrefixMatch[]): unknown {
  const rows = matches.map(({ slot: _slot, ...rest }) => rest);
  return rows.sort((a, b) => (`${a.worker}${a.source}` < `${b.worker}${b.source}` ? -1 : 1));
}

/** The run index against its plain twin, with random operations: throws at the first difference. */
export async function run(options: { readonly json: boolean; readonly ops?: string }): Promise<BenchResult> {
  const ops = Number(options.ops ?? DEFAULT_OPS);
  const start = performance.now();
  let seed = 1;
  const twins = new Twins(seed);
  for (let op = 1; op <= ops; op++) {
    try {
      twins.step();
    } catch (error) {
      throw new Error(`Operation ${op % LIFE} of life ${seed} differs`, { cause: error });
    }
    if (op % LIFE !== 0) continue;
    twins.renew(++seed);
    // So that signals and timers come in.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const seconds = (performance.now() - start) / 1000;
  const results = [figure("run index and its plain twin", "equal operations", "operations", [ops])];
  results.push(figure("run index and its plain twin", "time", "s", [seconds]));
  const result: BenchResult = { bench: "twin", results, machine: machine() };
  printResult(result, options.json);
  return result;
}
