import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { createNaiveIndex } from "./naive-index.ts";
import type { IndexStats, PrefixIndex, PrefixMatch } from "./prefix-index.ts";
import { createPrefixIndex } from "./run-index.ts";
import { TIERS } from "./tiers.ts";

/** Texts of blocks: beginnings of each other, so that chains with other boundaries spell the same bytes. */
const TEXTS = ["a", "a", "a", "b", "ab", "aa", "", "a longer text", "a longer tex!"];
const encoder = new TextEncoder();

/** Few workers and texts: what happens to one thing twice is what breaks an index. */
const worker = fc.integer({ min: 0, max: 5 }).map((n) => Math.max(0, n - 3));
/** A name that was used before, counted back from the latest. */
const known = fc.nat(40);
const text = fc.integer({ min: 0, max: TEXTS.length - 1 }).map((i) => TEXTS[i]!);
/** How a block is named: by its parent and text as engines do, by one of two such ways, or like a block before. */
const naming = fc.oneof(
  { weight: 20, arbitrary: fc.constant("first" as const) },
  { weight: 4, arbitrary: fc.constant("second" as const) },
  { weight: 1, arbitrary: known },
);
const tier = fc.integer({ min: 0, max: 3 }).map((i) => TIERS[i]!);
const root = fc.constantFrom("", "", "", "salt");
const prompt = fc.array(text, { maxLength: 12 }).map((texts) => encoder.encode(`${texts.join("")}a`));
const tokens = fc.nat(24);

const op = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("store" as const),
      worker,
      root,
      parent: fc.option(known, { nil: undefined, freq: 3 }),
      chain: fc.array(fc.tuple(naming, text), { maxLength: 8 }),
      tier: fc.oneof({ weight: 3, arbitrary: fc.constant(TIERS[0]!) }, tier),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("remove" as const),
      worker,
      names: fc.array(known, { maxLength: 6 }),
      tier: fc.option(tier, { nil: undefined }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("count" as const),
      worker,
      names: fc.array(known, { minLength: 1, maxLength: 3 }),
      counted: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("clear" as const), worker }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("reload" as const), worker }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("renew" as const), worker }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("record" as const),
      worker,
      root,
      prompt,
      marks: fc.array(fc.record({ byteLength: fc.nat(60), tokens: fc.nat(30) }), { maxLength: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("correct" as const), worker, root, prompt, tokens }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("match" as const), root, prompt }) },
);
type Op = typeof op extends fc.Arbitrary<infer T> ? T : never;

/** Names given so far, the same for both indexes. */
class Names {
  readonly #byKey = new Map<string, bigint>();
  readonly #given: bigint[] = [];

  copy(other: Names): void {
    for (const [key, id] of other.#byKey) this.#byKey.set(key, id);
    this.#given.push(...other.#given);
  }

  known(back: number): bigint {
    return this.#given.length === 0 ? 0n : this.#given[this.#given.length - 1 - (back % this.#given.length)]!;
  }

  chain(parent: bigint | undefined, chain: readonly (readonly [number | "first" | "second", string])[]): bigint[] {
    let before = String(parent);
    return chain.map(([naming, content]) => {
      const key = `${before}/${naming}/${content}`;
      // Both words of a name must count.
      const fresh = BigInt(this.#byKey.size + 1) * 0x1_0000_0001n;
      const id = typeof naming === "number" ? this.known(naming) : (this.#byKey.get(key) ?? fresh);
      if (typeof naming !== "number") this.#byKey.set(key, id);
      this.#given.push(id);
      before = String(id);
      return id;
    });
  }
}

/** An index with three workers, one of them with another block size, and their handles now. */
class Subject {
  readonly index: PrefixIndex;
  readonly slots: number[] = [];
  readonly #names = new Names();

  constructor(index: PrefixIndex) {
    this.index = index;
    for (let i = 0; i < 3; i++) this.slots.push(this.#add(i));
  }

  #add(i: number): number {
    return this.index.addWorker(workerId(`w${i}`), { historyEntries: 2 });
  }

  apply(op: Op): unknown {
    if (op.op === "match") return canonical(this.index.match(op.root, op.prompt));
    const slot = this.slots[op.worker]!;
    switch (op.op) {
      case "store":
        return this.index.store(slot, this.#blocks(op));
      case "remove":
        return this.index.remove(
          slot,
          op.names.map((back) => this.#names.known(back)),
          op.tier,
        );
      case "count":
        return this.index.setCounted(
          slot,
          op.names.map((back) => this.#names.known(back)),
          op.counted,
        );
      case "clear":
        return this.index.clearWorker(slot);
      case "reload": {
        const chunks = [...this.index.save(slot)];
        this.index.dropWorker(slot);
        this.slots[op.worker] = this.#add(op.worker);
        return chunks.every((chunk) => this.index.load(this.slots[op.worker]!, chunk));
      }
      case "renew":
        this.index.dropWorker(slot);
        this.slots[op.worker] = this.#add(op.worker);
        return undefined;
      case "record":
        return this.index.record(slot, { root: op.root, bytes: op.prompt, marks: op.marks });
      case "correct":
        return this.index.correct(slot, op.root, op.prompt, op.tokens);
    }
  }

  /** Give the names of an operation that is not done. */
  skip(op: Op): void {
    if (op.op === "store") this.#blocks(op);
  }

  /** Another index, empty, that goes on from here with the same names. */
  successor(index: PrefixIndex): Subject {
    const next = new Subject(index);
    next.#names.copy(this.#names);
    return next;
  }

  #blocks(op: Extract<Op, { op: "store" }>) {
    const parent = op.parent === undefined ? undefined : this.#names.known(op.parent);
    const blocks = op.chain.map(([, content]) => encoder.encode(content));
    let end = 0;
    return {
      root: op.root,
      parent,
      names: this.#names.chain(parent, op.chain),
      bytes: Uint8Array.from(blocks.flatMap((block) => [...block])),
      ends: Uint32Array.from(blocks, (block) => (end += block.length)),
      blockTokens: op.worker === 2 ? 2 : 4,
      tier: op.tier,
    };
  }
}

function canonical(matches: readonly PrefixMatch[]): unknown {
  const rows = matches.map(({ slot: _slot, ...rest }) => rest);
  return rows.sort((a, b) => `${a.worker}${a.source}`.localeCompare(`${b.worker}${b.source}`));
}

/** Of the figures, those that both indexes have. */
function figures(index: PrefixIndex): Partial<IndexStats> {
  const { runs: _runs, bytes: _bytes, capBytes: _capBytes, evictedBlocks: _evicted, ...rest } = index.stats();
  return rest;
}

const PROMPTS = ["a".repeat(30), "b", "aab", "ab", "abab", "ba", "aaab", "aba", "a longer text", "aa longer text"].map(
  (text) => encoder.encode(`${text}${text}aaz`),
);

describe("createPrefixIndex()", () => {
  it("createPrefixIndex() answers as the plain twin does, whatever happened", () => {
    fc.assert(
      fc.property(fc.array(op, { maxLength: 120, size: "max" }), fc.nat(), (ops, seed) => {
        const fast = new Subject(createPrefixIndex({ capBytes: 64 << 20, seed }));
        const naive = new Subject(createNaiveIndex());
        for (const one of ops) expect(fast.apply(one)).toEqual(naive.apply(one));
        for (const prompt of PROMPTS) {
          for (const root of ["", "salt"]) {
            const expected = canonical(naive.index.match(root, prompt));
            expect(canonical(fast.index.match(root, prompt))).toEqual(expected);
          }
        }
        expect(figures(fast.index)).toEqual(figures(naive.index));
      }),
      { numRuns: 300 },
    );
  });

  it("save() gives what is held at the end, with the events since applied over it", () => {
    // A name says what it stands for, as engines' do: one that moves to another place takes what comes again elsewhere.
    const named = op.map((one): Op => {
      if (one.op !== "store") return one;
      return {
        ...one,
        root: "",
        chain: one.chain.map(([how, text]) => [typeof how === "number" ? "first" : how, text]),
      };
    });
    const ops = fc.array(named, { maxLength: 60, size: "max" });
    fc.assert(
      fc.property(ops, ops, fc.nat(5), (before, since, pace) => {
        const index = createPrefixIndex({ capBytes: 64 << 20, seed: 1 });
        const subject = new Subject(index);
        // A mark that is inherited is not always when events come again: what was above may have been stored anew meanwhile.
        for (const one of before) if (one.op !== "count") subject.apply(one);
        const successor = subject.successor(createPrefixIndex({ capBytes: 64 << 20, seed: 1 }));
        // Only what events say comes again.
        const events = since.filter(({ op }) => op === "store" || op === "remove" || op === "clear");
        const save = index.save(subject.slots[0]!)[Symbol.iterator]();
        const chunks: Uint8Array[] = [];
        const refused = new Set<Op>();
        for (const [i, one] of events.entries()) {
          // What was refused for want of its parent does not come again: it may be there in what was saved.
          if (subject.apply(one) === false) refused.add(one);
          if (pace === 0 || i % pace > 0) continue;
          const next = save.next();
          if (next.done !== true) chunks.push(next.value);
        }
        for (let next = save.next(); next.done !== true; next = save.next()) chunks.push(next.value);
        for (const chunk of chunks) expect(successor.index.load(successor.slots[0]!, chunk)).toBe(true);
        for (const one of events) {
          if (refused.has(one)) successor.skip(one);
          else successor.apply(one);
        }
        for (const prompt of PROMPTS) {
          for (const root of ["", "salt"]) {
            const of = (index: PrefixIndex) => index.match(root, prompt).filter(({ worker }) => worker === "w0");
            expect(canonical(of(successor.index))).toEqual(canonical(of(index)));
          }
        }
      }),
      { numRuns: 200 },
    );
  });
});
