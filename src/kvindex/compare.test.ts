import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { createNaiveIndex } from "./naive-index.ts";
import type { PrefixIndex, PrefixMatch } from "./prefix-index.ts";
import { createPrefixIndex, type RunPrefixIndex } from "./run-index.ts";

const WORKERS = 2;
const LONGEST = 150;

/** The first blocks of a document that differs from another one from a block on. */
const chain = fc.record({
  document: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.nat(2)),
  differsFrom: fc.constantFrom(0, 20, 31, 32, 40, 70, 100, LONGEST, LONGEST),
  blocks: fc.oneof(fc.nat(LONGEST), fc.constantFrom(1, 31, 32, 33, 64, 96), fc.constant(LONGEST)),
});
const op = fc.oneof(
  { weight: 2, arbitrary: fc.record({ op: fc.constant("store" as const), worker: fc.nat(WORKERS - 1), chain }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("append" as const), worker: fc.nat(WORKERS - 1), chain }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("remove" as const),
      worker: fc.nat(WORKERS - 1),
      chain,
      from: fc.oneof(fc.nat(LONGEST), fc.constantFrom(20, 40, 70)),
    }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant("match" as const), chain, asHashes: fc.boolean() }) },
);
type Op = typeof op extends fc.Arbitrary<infer T> ? T : never;
type Chain = Op["chain"];

/** Which variant of a document has which content in a block. */
const contentOf = ({ document, differsFrom }: Chain, i: number): number =>
  i < differsFrom ? 1000 * document + i : 100_000 + 1000 * document + differsFrom * 7 + i;

function namesOf(of: Chain): BigUint64Array {
  let before = 1n;
  const names = new BigUint64Array(of.blocks);
  for (let i = 0; i < of.blocks; i++) {
    before = BigInt.asUintN(64, before * 6364136223846793005n + BigInt(contentOf(of, i)) + 1n);
    names[i] = before;
  }
  return names;
}

/** Blocks of 1 to 7 bytes. */
function bytesOf(of: Chain): { readonly bytes: Uint8Array; readonly ends: Uint32Array } {
  const bytes: number[] = [];
  const ends = Uint32Array.from({ length: of.blocks }, (_, i) => {
    const content = contentOf(of, i);
    for (let k = 0; k <= content % 7; k++) bytes.push((content * 31 + k * 17) % 251);
    return bytes.length;
  });
  return { bytes: Uint8Array.from(bytes), ends };
}

const hashesOf = (of: Chain): BigUint64Array =>
  BigUint64Array.from({ length: of.blocks }, (_, i) => (BigInt(contentOf(of, i)) * 0x9e3779b97f4a7c15n) % (1n << 64n));

const rows = (matches: readonly PrefixMatch[]): unknown =>
  matches.map(({ slot, blocks, bytes }) => [slot, blocks, bytes]).sort();

/** The index asked by bytes, and one asked by hashes whose blocks are the same, beside the plain twin. */
class Three {
  readonly twin: PrefixIndex = createNaiveIndex(7);
  readonly byBytes = createPrefixIndex({ capBytes: 1 << 26, seed: 7 });
  readonly byHashes: RunPrefixIndex = createPrefixIndex({ capBytes: 1 << 26, seed: 7 });

  constructor() {
    for (const index of [this.twin, this.byBytes, this.byHashes]) {
      for (let i = 0; i < WORKERS; i++) index.addWorker(workerId(`w${i}`));
    }
  }

  apply(step: Op): void {
    const names = namesOf(step.chain);
    if (step.op === "match") this.#match(step.chain, step.asHashes);
    else if (step.op === "remove") {
      for (const index of [this.twin, this.byBytes, this.byHashes]) {
        index.remove(step.worker, names.slice(step.from).reverse());
      }
    } else this.#store(step.worker, step.chain, names, step.op === "append" ? step.chain.blocks >> 1 : 0);
  }

  /** Store a chain's blocks from a number on. */
  #store(worker: number, of: Chain, names: BigUint64Array, from: number): void {
    const { bytes, ends } = bytesOf(of);
    const start = from === 0 ? 0 : ends[from - 1]!;
    const blocks = {
      root: "",
      parent: from === 0 ? undefined : names[from - 1],
      names: names.slice(from),
      blockTokens: 4,
      tier: "device",
    } as const;
    const spelt = { ...blocks, bytes: bytes.slice(start), ends: ends.slice(from).map((end) => end - start) };
    const stored = this.twin.store(worker, spelt);
    expect(this.byBytes.store(worker, spelt)).toBe(stored);
    expect(this.byHashes.storeHashed(worker, { ...blocks, hashes: hashesOf(of).slice(from) })).toBe(stored);
  }

  #match(of: Chain, asHashes: boolean): void {
    const { bytes } = bytesOf(of);
    const prompt = Uint8Array.from([...bytes, 255]);
    const expected = rows(this.twin.match("", prompt));
    expect(rows(this.byBytes.match("", prompt))).toEqual(expected);
    // Whole blocks only: the twin, which sees bytes, may find others that begin like one.
    const depths = (found: readonly PrefixMatch[]) => found.map(({ slot, blocks }) => [slot, blocks]).sort();
    expect(depths(this.byHashes.matchHashed("", hashesOf(of)))).toEqual(depths(this.twin.match("", prompt)));
    // Digests of the other kind are made anew.
    if (asHashes) this.byHashes.match("", prompt);
  }
}

describe("match()", () => {
  it("match() of long chains, by bytes and by hashes, answers as the plain twin does, whatever was asked before", () => {
    fc.assert(
      fc.property(fc.array(op, { minLength: 4, maxLength: 40 }), (ops) => {
        const all = new Three();
        for (const step of ops) all.apply(step);
      }),
      { numRuns: 100 },
    );
  });

  it("match() takes nothing for known that went and was replaced", () => {
    const whole: Chain = { document: 0, differsFrom: LONGEST, blocks: LONGEST };
    const other: Chain = { ...whole, differsFrom: 100 };
    const all = new Three();
    all.apply({ op: "store", worker: 0, chain: whole });
    all.apply({ op: "match", chain: whole, asHashes: false });
    all.apply({ op: "remove", worker: 0, chain: whole, from: 100 });
    all.apply({ op: "store", worker: 0, chain: other });
    all.apply({ op: "match", chain: whole, asHashes: false });
    all.apply({ op: "match", chain: other, asHashes: false });
  });
});
