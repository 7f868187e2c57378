import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareVersions, inRange, isVersion } from "./version.ts";

describe("compareVersions()", () => {
  it("orders releases, their candidates and their post releases", () => {
    const sorted = ["0.9", "0.24.0rc1", "0.24.0", "0.24.0.post1", "0.24.1", "0.100", "1", "2026.10.11549"];
    expect([...sorted].reverse().sort(compareVersions)).toEqual(sorted);
  });

  it("takes missing numbers for 0 and does not look at local parts", () => {
    expect(compareVersions("0.32", "0.32.0")).toBe(0);
    expect(compareVersions("0.32.0+cpu", "v0.32.0")).toBe(0);
    expect(compareVersions("unknown", "0.1")).toBeLessThan(0);
  });

  it("is an order: turned round it says the opposite", () => {
    const version = fc.array(fc.nat(99), { minLength: 1, maxLength: 4 }).map((numbers) => numbers.join("."));
    fc.assert(
      fc.property(version, version, version, (a, b, c) => {
        expect(Math.sign(compareVersions(a, b))).toBe(-Math.sign(compareVersions(b, a)) + 0);
        if (compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0)
          expect(compareVersions(a, c)).toBeLessThanOrEqual(0);
      }),
    );
  });
});

describe("inRange()", () => {
  it.each([
    ["0.33.0", ">=0.24.0 <0.34", true],
    ["0.34.0", ">=0.24.0 <0.34", false],
    ["0.23.9", ">=0.24.0,<0.34", false],
    ["0.26.1", "==0.26.*", true],
    ["0.27.0", "!=0.26.*", true],
    ["0.32.0+cpu", "0.32.0", true],
    ["0.32.1", "<=0.32", false],
    ["0.32.1", ">0.32", true],
    ["5", "", true],
    ["nightly", ">=0.1", false],
  ])("%s in %j is %s", (version, range, is) => {
    expect(inRange(version, range)).toBe(is);
  });
});

describe("isVersion()", () => {
  it("takes what begins with a number", () => {
    expect(["0.32.0+cpu", "v1", "2026.10", "main", "", "-1"].filter(isVersion)).toEqual([
      "0.32.0+cpu",
      "v1",
      "2026.10",
    ]);
  });
});
