import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RunRecord } from "./run-record.ts";

const KIB = 1024;

describe("RunRecord", () => {
  it("keeps a short run whole", () => {
    const record = new RunRecord();
    for (const text of ["one\n", "two\n"]) record.push(Buffer.from(text));
    expect(Buffer.from(record.bytes()).toString()).toBe("one\ntwo\n");
    record.clear();
    expect(record.bytes()).toHaveLength(0);
  });

  it("keeps the beginning and the end of a long one, says how much is between, and stays bounded", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 300 * KIB }), { maxLength: 12 }), (sizes) => {
        const record = new RunRecord();
        const all = Buffer.alloc(sizes.reduce((sum, size) => sum + size, 0));
        for (let i = 0; i < all.length; i++) all[i] = 33 + (i % 90);
        let at = 0;
        for (const size of sizes) {
          record.push(all.subarray(at, at + size));
          at += size;
        }
        const kept = Buffer.from(record.bytes());
        const gap = /\n… (\d+) bytes left out …\n/.exec(kept.toString("utf8"));
        if (gap === null) {
          expect(kept.equals(all)).toBe(true);
          return;
        }
        const line = Buffer.from(gap[0]);
        const cut = kept.indexOf(line);
        const end = kept.subarray(cut + line.length);
        expect(cut).toBe(64 * KIB);
        expect(kept.subarray(0, cut).equals(all.subarray(0, cut))).toBe(true);
        expect(end.equals(all.subarray(all.length - end.length))).toBe(true);
        expect(Number(gap[1])).toBe(all.length - cut - end.length);
        expect(end.length).toBeGreaterThanOrEqual(192 * KIB);
        // A chunk is kept or left out as a whole, and none is larger than the tail.
        expect(end.length).toBeLessThan(2 * 192 * KIB);
      }),
      { numRuns: 30 },
    );
  });
});
