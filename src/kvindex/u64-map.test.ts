import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { U64Map } from "./u64-map.ts";

const key = fc.nat(400);
const op = fc.oneof(
  fc.record({ op: fc.constant("set" as const), key, value: fc.integer({ min: 1, max: 0xffffffff }) }),
  fc.record({ op: fc.constant("delete" as const), key, value: fc.constant(0) }),
  fc.record({ op: fc.constant("sweep" as const), key, value: fc.nat(7) }),
);
/** Low and high word of key n: both must count. */
const words = (n: number) => [n & 15, n >>> 4] as const;

describe("U64Map", () => {
  it("U64Map does what a Map does", () => {
    fc.assert(
      fc.property(fc.array(op, { maxLength: 600, size: "max" }), (ops) => {
        const map = new U64Map();
        const plain = new Map<number, number>();
        for (const { op, key, value } of ops) {
          const [low, high] = words(key);
          if (op === "set") {
            expect(map.set(low, high, value)).toBe(plain.get(key) ?? 0);
            plain.set(key, value);
          } else if (op === "delete") {
            expect(map.delete(low, high)).toBe(plain.get(key) ?? 0);
            plain.delete(key);
          } else {
            for (let at = 0; at >= 0; ) at = map.sweep(at, (held) => held % 8 === value);
            for (const [k, held] of plain) if (held % 8 === value) plain.delete(k);
          }
          expect(map.get(low, high)).toBe(plain.get(key) ?? 0);
        }
        expect(map.size).toBe(plain.size);
        for (let k = 0; k <= 400; k++) expect(map.get(...words(k))).toBe(plain.get(k) ?? 0);
      }),
    );
  });

  it("U64Map holds many keys, sequential ones too, and sweeps them all while it grows", () => {
    const map = new U64Map();
    const count = 60_000;
    for (let i = 0; i < count; i++) expect(map.set(i, 7, i + 1)).toBe(0);
    expect(map.size).toBe(count);
    expect(map.bytes / count).toBeLessThan(36);
    let next = count;
    for (let at = 0; at >= 0; ) {
      at = map.sweep(at, (value) => value % 2 === 0);
      for (let i = 0; i < 2000; i++, next++) map.set(next, 7, 1);
    }
    for (let i = 0; i < count; i++) expect(map.get(i, 7)).toBe((i + 1) % 2 === 0 ? 0 : i + 1);
    for (let i = 0; i < next; i++) map.delete(i, 7);
    expect(map.size).toBe(0);
  });
});
