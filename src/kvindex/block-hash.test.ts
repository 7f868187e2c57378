import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createBlockHash, hashKeys, hashPlain } from "./block-hash.ts";
import { Heap } from "./heap.ts";

const keys = hashKeys(42);
const heap = new Heap(4 << 20);
const hash = createBlockHash(keys, heap.memory);
const [BYTES, ENDS, OUT, OUT2] = [65_536, 1 << 17, 1 << 18, 1 << 19];
const word = (at: number) => BigInt(heap.words[at / 4]!) | (BigInt(heap.words[at / 4 + 1]!) << 32n);

function ends(lengths: readonly number[]): Uint32Array {
  let at = 0;
  return Uint32Array.from(lengths, (length) => (at += length));
}

const chain = fc.array(fc.uint8Array({ maxLength: 40 }), { minLength: 1, maxLength: 20 });

describe("block hashes", () => {
  it("hashBlocks() and hashOne() compute what hashPlain() says, at any alignment", () => {
    fc.assert(
      fc.property(chain, fc.nat(7), (blocks, shift) => {
        const bytes = Uint8Array.from(blocks.flatMap((block) => [...block]));
        heap.bytes.set(bytes, BYTES + shift);
        heap.words.set(ends(blocks.map((block) => block.length)), ENDS / 4);
        hash.hashBlocks(BYTES + shift, ENDS, blocks.length, OUT);
        let at = BYTES + shift;
        for (const [i, block] of blocks.entries()) {
          expect(word(OUT + 16 * i)).toBe(hashPlain(keys, block));
          expect(heap.words[(OUT + 16 * i) / 4 + 2]).toBe(block.length);
          hash.hashOne(at, block.length, OUT2);
          expect(word(OUT2)).toBe(hashPlain(keys, block));
          at += block.length;
        }
      }),
    );
  });

  it("matchBlocks() stops at the first other byte and at the limit", () => {
    fc.assert(
      fc.property(chain, fc.nat(), fc.boolean(), (blocks, where, flip) => {
        const bytes = Uint8Array.from(blocks.flatMap((block) => [...block]));
        const at = bytes.length === 0 ? 0 : where % bytes.length;
        heap.bytes.set(bytes, BYTES);
        const cumulative = ends(blocks.map((block) => block.length));
        heap.words.set(cumulative, ENDS / 4);
        hash.hashBlocks(BYTES, ENDS, blocks.length, OUT);
        if (flip && bytes.length > 0) heap.bytes[BYTES + at]! ^= 0x80;
        const limit = flip ? bytes.length : at;
        const found = hash.matchBlocks(BYTES, BYTES + limit, OUT, blocks.length, OUT2);
        const expected =
          flip && bytes.length > 0
            ? cumulative.findIndex((end) => end > at)
            : cumulative.findIndex((end) => end > limit);
        expect(found).toBe(expected < 0 ? blocks.length : expected);
        for (let i = 0; i < found; i++) expect(heap.words[OUT2 / 4 + i]).toBe(BYTES + cumulative[i]!);
      }),
    );
  });

  it("sameBlocks() counts equal leading records", () => {
    heap.words.set([1, 2, 3, 9, 4, 5, 6, 9, 7, 8, 9, 9], OUT / 4);
    heap.words.set([1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 1, 0], OUT2 / 4);
    expect(hash.sameBlocks(OUT, OUT2, 3)).toBe(2);
    expect(hash.sameBlocks(OUT, OUT2, 1)).toBe(1);
  });

  it("hashKeys() gives other hashes for another seed", () => {
    const block = Uint8Array.of(1, 2, 3);
    expect(hashPlain(hashKeys(1), block)).not.toBe(hashPlain(hashKeys(2), block));
  });
});

describe("Heap", () => {
  it("free() joins neighbours and alloc() never hands out a unit twice", () => {
    const op = fc.record({ units: fc.integer({ min: 1, max: 200 }), pick: fc.nat(), part: fc.nat() });
    fc.assert(
      fc.property(fc.array(op, { maxLength: 200, size: "max" }), (ops) => {
        const small = new Heap(0);
        const held: { at: number; units: number }[] = [];
        const owner = new Map<number, number>();
        for (const [tag, { units, pick, part }] of ops.entries()) {
          if (pick % 3 > 0 || held.length === 0) {
            const at = small.alloc(units);
            expect(at).toBeGreaterThan(0);
            for (let unit = at; unit < at + units; unit++) {
              expect(owner.has(unit)).toBe(false);
              owner.set(unit, tag);
              small.words.fill(tag, 4 * unit, 4 * unit + 4);
            }
            held.push({ at, units });
            continue;
          }
          const range = held[pick % held.length]!;
          const freed = 1 + (part % range.units);
          for (let unit = range.at; unit < range.at + freed; unit++) {
            expect(small.words[4 * unit]).toBe(owner.get(unit));
            owner.delete(unit);
          }
          small.free(range.at, freed);
          range.at += freed;
          range.units -= freed;
          if (range.units === 0) held.splice(held.indexOf(range), 1);
        }
        expect(small.used).toBe(owner.size);
        for (const { at, units } of held) small.free(at, units);
        expect(small.alloc(100)).toBeLessThan(300);
      }),
    );
  });

  it("alloc() says 0 at the limit, and has room again after free()", () => {
    const small = new Heap(0);
    const units = (6 << 20) / 16;
    const first = small.alloc(units);
    expect(first).toBeGreaterThan(0);
    expect(small.alloc(units)).toBe(0);
    small.free(first, units);
    expect(small.alloc(units)).toBe(first);
  });
});
