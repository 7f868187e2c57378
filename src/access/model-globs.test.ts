import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { globMatches, mayUseModel } from "./model-globs.ts";

/** The naive twin: exponential, but plainly right. */
function naive(glob: string, name: string): boolean {
  if (glob === "") return name === "";
  if (glob[0] === "*") return naive(glob.slice(1), name) || (name !== "" && naive(glob, name.slice(1)));
  return name !== "" && (glob[0] === "?" || glob[0] === name[0]) && naive(glob.slice(1), name.slice(1));
}

describe("globMatches()", () => {
  it.each([
    ["*", "anything/at:all", true],
    ["Qwen/*", "Qwen/Qwen3-8B", true],
    ["Qwen/*", "qwen/Qwen3-8B", false],
    ["gpt-oss-?0b", "gpt-oss-20b", true],
    ["m", "m2", false],
    ["a.b", "axb", false],
    ["[ab]*", "[ab]c", true],
    ["a*", "a\nb", true],
  ])("%s on %s: %s", (glob, name, wanted) => expect(globMatches(glob, name)).toBe(wanted));

  it("agrees with its naive twin", () => {
    const text = (letters: string, maxLength: number) =>
      fc.array(fc.constantFrom(...letters), { maxLength }).map((all) => all.join(""));
    fc.assert(
      fc.property(text("ab*?.", 7), text("ab.", 7), (glob, name) => {
        expect(globMatches(glob, name)).toBe(naive(glob, name));
      }),
      { numRuns: 2_000 },
    );
  });

  it("many stars end soon", () => {
    // A pattern of that kind in a token's claim would stop the router for minutes.
    expect(globMatches(`${"*a".repeat(40)}*c`, "a".repeat(4_000))).toBe(false);
  });
});

describe("mayUseModel()", () => {
  it("allows all without a list, and none with an empty one", () => {
    expect(mayUseModel({}, "m")).toBe(true);
    expect(mayUseModel({ models: [] }, "m")).toBe(false);
  });
});
