import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockPool } from "./block-pool.ts";

describe("BlockPool", () => {
  it("take() gives blocks without a name first, then the least recently released, deepest first", () => {
    const removed: string[] = [];
    const pool = new BlockPool(6, (name) => removed.push(String(name)));
    const first = pool.take(3);
    pool.setName(first[0]!, "a0");
    pool.setName(first[1]!, "a1");
    const second = pool.take(1);
    pool.setName(second[0]!, "b0");
    pool.release(first);
    pool.release(second);
    pool.take(3);
    expect(removed).toEqual([]);
    pool.take(3);
    expect(removed).toEqual(["a1", "a0", "b0"]);
  });

  it("find() gives the older of two blocks with one name, and each one's loss is told", () => {
    const removed: string[] = [];
    const pool = new BlockPool(2, (name) => removed.push(String(name)));
    const [one, two] = pool.take(2);
    pool.setName(one!, "x");
    pool.setName(two!, "x");
    expect(pool.find("x")).toBe(one);
    pool.release([one!]);
    pool.take(1);
    expect(pool.find("x")).toBe(two);
    pool.release([two!]);
    pool.take(1);
    expect(removed).toEqual(["x", "x"]);
    expect(pool.find("x")).toBeUndefined();
  });

  it("reset() is refused while a block is in use", () => {
    const pool = new BlockPool(2, () => {});
    const [id] = pool.take(1);
    pool.setName(id!, "x");
    expect(pool.reset()).toBe(false);
    pool.release([id!]);
    expect(pool.reset()).toBe(true);
    expect(pool.find("x")).toBeUndefined();
  });

  it("release() of a block that nobody holds is a bug of the caller", () => {
    const pool = new BlockPool(1, () => {});
    const taken = pool.take(1);
    pool.release(taken);
    expect(() => pool.release(taken)).toThrow(RangeError);
  });

  it("keeps every block either used or free, whatever is done", () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant("take" as const), n: fc.integer({ min: 0, max: 5 }) }),
      fc.record({ do: fc.constant("release" as const), n: fc.nat(20) }),
      fc.record({ do: fc.constant("touch" as const), n: fc.nat(30) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let removed = 0;
        let named = 0;
        const pool = new BlockPool(12, () => removed++);
        const chains: number[][] = [];
        for (const { do: action, n } of steps) {
          if (action === "take" && n <= pool.free) {
            const chain = pool.take(n);
            chain.forEach((id, i) => {
              if ((id + i) % 3 !== 0) pool.setName(id, `n${(named += 1) % 9}`);
            });
            chains.push(chain);
          } else if (action === "release" && chains.length > 0) {
            pool.release(chains.splice(n % chains.length, 1)[0]!);
          } else if (action === "touch") {
            const id = pool.find(`n${n % 9}`);
            if (id !== undefined) {
              pool.touch(id);
              chains.push([id]);
            }
          }
          const held = new Set(chains.flat());
          expect(pool.used).toBe(held.size);
          expect(pool.free + pool.used).toBe(12);
          expect(pool.cached).toBe(named - removed);
        }
      }),
    );
  });
});
