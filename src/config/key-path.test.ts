import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatKeyPath, parseKeyPath } from "./key-path.ts";

const step = fc.oneof(fc.string(), fc.nat(9999));
const path = fc
  .tuple(fc.string({ minLength: 1 }), fc.array(step, { maxLength: 4 }))
  .map(([first, rest]) => [first, ...rest]);

describe("formatKeyPath()", () => {
  it("formatKeyPath() quotes only what TOML must quote", () => {
    expect(formatKeyPath(["models", "Qwen/Qwen3-8B", "tp"])).toBe('models."Qwen/Qwen3-8B".tp');
    expect(formatKeyPath(["engines", 1, "kind"])).toBe("engines[1].kind");
    expect(formatKeyPath([])).toBe("");
  });

  it("parseKeyPath() reads back every path that formatKeyPath() prints", () => {
    fc.assert(
      fc.property(path, (steps) => {
        // A bare key of digits alone is an index unless it comes first: TOML's own spelling cannot tell them apart.
        const clear = steps.filter((each) => typeof each === "number" || !/^\d+$/.test(each));
        fc.pre(clear.length === steps.length);
        expect(parseKeyPath(formatKeyPath(steps))).toEqual(steps);
      }),
    );
  });
});

describe("parseKeyPath()", () => {
  it.each([
    ["engines.1.kind", ["engines", 1, "kind"]],
    ["models.'a.b'.tp", ["models", "a.b", "tp"]],
    ["router", ["router"]],
  ])("parseKeyPath() reads %s", (text, steps) => expect(parseKeyPath(text)).toEqual(steps));

  it.each(["", ".", "a..b", "a.", 'a."b', "a b", "[", "a[x]"])("parseKeyPath() gives undefined for %j", (text) =>
    expect(parseKeyPath(text)).toBeUndefined(),
  );
});
