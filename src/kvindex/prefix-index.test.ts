import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { createNaiveIndex } from "./naive-index.ts";
import type { PrefixIndex, PrefixMatch } from "./prefix-index.ts";
import { createPrefixIndex } from "./run-index.ts";
import { TIERS } from "./tiers.ts";

/** Texts of blocks: beginnings of each other, so that chains with other boundaries spell the same bytes. */
const TEXTS = ["a", "b", "ab", "aba", "bab", "", "abababab", "a long block of text", "a long block of text!"];
const encoder = new TextEncoder();

const worker = fc.nat(4);
const name = fc.nat(30).map((n) => BigInt(n) * 0x1_0000_0001_0001n);
const text = fc.integer({ min: 0, max: TEXTS.length - 1 }).map((i) => TEXTS[i]!);
const tier = fc.integer({ min: 0, max: 3 }).map((i) => TIERS[i]!);
const root = fc.constantFrom("", "salt");
const prompt = fc.array(text, { maxLength: 12 }).map((texts) => encoder.encode(`${texts.join("")}a`));
const tokens = fc.nat(40);

const op = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant("store" as const),
      worker,
      root,
      parent: fc.option(name, { nil: undefined }),
      chain: fc.array(fc.tuple(name, text), { maxLength: 8 }),
      tier: fc.oneof({ weight: 3, arbitrary: fc.constant(TIERS[0]!) }, tier),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("remove" as const),
      worker,
      names: fc.array(name, { maxLength: 6 }),
      tier: fc.option(tier, { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("clear" as const), worker }) },
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
  { weight: 2, arbitrary: fc.record({ op: fc.constant("correct" as const), worker, root, prompt, tokens }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("match" as const), root, prompt }) },
);
type Op = typeof op extends fc.Arbitrary<infer T> ? T : never;

/** An index with five workers, some of them with other block sizes, and their handles now. */
class Subject {
  readonly index: PrefixIndex;
  readonly slots: number[] = [];

  constructor(index: PrefixIndex) {
    this.index = index;
    for (let i = 0; i < 5; i++) this.slots.push(this.#add(i));
  }

  #add(i: number): number {
    return this.index.addWorker(workerId(`w${i}`), { historyEntries: 2 });
  }

  apply(op: Op): unknown {
    if (op.op === "match") return canonical(this.index.match(op.root, op.prompt));
    const slot = this.slots[op.worker]!;
    switch (op.op) {
      case "store":
        return this.index.store(slot, storedBlocks(op));
      case "remove":
        return this.index.remove(slot, op.names, op.tier);
      case "clear":
        return this.index.clearWorker(slot);
      case "renew":
        this.index.dropWorker(slot);
        this.slots[op.worker] = this.#add(op.worker);
        expect(
          this.index.store(
            slot,
            storedBlocks({ root: "", parent: undefined, chain: [[1n, "a"]], worker: 0, tier: "device" }),
          ),
        ).toBe(false);
        return undefined;
      case "record":
        return this.index.record(slot, { root: op.root, bytes: op.prompt, marks: op.marks });
      case "correct":
        return this.index.correct(slot, op.root, op.prompt, op.tokens);
    }
  }
}

function storedBlocks(op: Pick<Extract<Op, { op: "store" }>, "root" | "parent" | "chain" | "tier" | "worker">) {
  const blocks = op.chain.map(([, content]) => encoder.encode(content));
  let end = 0;
  return {
    root: op.root,
    parent: op.parent,
    names: op.chain.map(([id]) => id),
    bytes: Uint8Array.from(blocks.flatMap((block) => [...block])),
    ends: Uint32Array.from(blocks, (block) => (end += block.length)),
    blockTokens: op.worker === 4 ? 2 : 4,
    tier: op.tier,
  };
}

function canonical(matches: readonly PrefixMatch[]): unknown {
  const rows = matches.map(({ slot: _slot, ...rest }) => rest);
  return rows.sort((a, b) => `${a.worker}${a.source}`.localeCompare(`${b.worker}${b.source}`));
}

const PROMPTS = [
  ...TEXTS.flatMap((a) => TEXTS.map((b) => encoder.encode(`${a}${b}${a}${b}a`))),
  encoder.encode("ab".repeat(20)),
];

describe("createPrefixIndex()", () => {
  it("createPrefixIndex() answers as the plain twin does, whatever happened", () => {
    fc.assert(
      fc.property(fc.array(op, { maxLength: 60 }), fc.nat(), (ops, seed) => {
        const fast = new Subject(createPrefixIndex({ capBytes: 64 << 20, seed }));
        const naive = new Subject(createNaiveIndex());
        for (const one of ops) expect(fast.apply(one)).toEqual(naive.apply(one));
        for (const prompt of PROMPTS) {
          for (const root of ["", "salt"]) {
            const expected = canonical(naive.index.match(root, prompt));
            expect(canonical(fast.index.match(root, prompt))).toEqual(expected);
          }
        }
        const { blocks, orphanBlocks, unknownRemovals, corrections, historyEntries, workers } = fast.index.stats();
        expect({ blocks, orphanBlocks, unknownRemovals, corrections, historyEntries, workers }).toEqual(
          (({ blocks, orphanBlocks, unknownRemovals, corrections, historyEntries, workers }) => ({
            blocks,
            orphanBlocks,
            unknownRemovals,
            corrections,
            historyEntries,
            workers,
          }))(naive.index.stats()),
        );
      }),
      { numRuns: 300 },
    );
  });
});
