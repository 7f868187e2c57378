import { describe, expect, it } from "vitest";
import { hasOddNumbers, parseExact, withNumbers } from "./exact-numbers.ts";

const through = (json: string): string => withNumbers(JSON.stringify(parseExact(json)));

describe("parseExact() and withNumbers()", () => {
  // What `json.dumps(json.loads(text))` of Python 3.11 gives.
  it.each([
    ["[1.0, 0.0, -2.50, 100.0]", "[1.0,0.0,-2.5,100.0]"],
    ["[1e3, 1E-7, 1.5e300, 1e16, 1e15]", "[1000.0,1e-07,1.5e+300,1e+16,1000000000000000.0]"],
    ["[12345678901234567890, 9007199254740993]", "[12345678901234567890,9007199254740993]"],
    ["[0.1, 1, -1.5, 1234]", "[0.1,1,-1.5,1234]"],
    ['{"a 1.0": "1.0"}', '{"a 1.0":"1.0"}'],
  ])("keeps %s as Python writes it", (json, python) => {
    expect(through(json)).toBe(python);
  });

  it("leaves JSON without such numbers to JSON.parse()", () => {
    expect(hasOddNumbers('{"n": [1, 2.5, -3]}')).toBe(false);
    expect(parseExact('{"n": [1, 2.5]}')).toEqual({ n: [1, 2.5] });
    expect(() => parseExact("{1.0")).toThrow(SyntaxError);
  });
});
