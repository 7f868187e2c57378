import fc from "fast-check";
import { expect, test } from "vitest";
import { type Leg, LegList } from "./leg-list.ts";

const leg = (): Leg => ({ lost() {} });

test("LegList holds what a Set would hold after any additions and deletions", () => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(7)), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (all) => {
      const legs = Array.from({ length: 8 }, leg);
      const list = new LegList();
      const set = new Set<Leg>();
      for (const [add, at] of all) {
        const one = legs[at]!;
        if (!add) list.delete(one);
        else if (!set.has(one)) list.add(one);
        if (add) set.add(one);
        else set.delete(one);
        expect(new Set(list)).toEqual(set);
        expect(list.size).toBe(set.size);
      }
    }),
  );
});

test("LegList.delete() leaves another list's legs where they are", () => {
  const [one, other] = [new LegList(), new LegList()];
  const [a, b] = [leg(), leg()];
  one.add(a);
  other.add(b);
  one.delete(b);
  expect([...one]).toEqual([a]);
  expect([...other]).toEqual([b]);
});
