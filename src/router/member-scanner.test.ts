import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemberScanner, NotAnObject } from "./member-scanner.ts";

function scan(text: string, budget = 1_000_000): MemberScanner {
  const scanner = new MemberScanner(Buffer.from(text));
  for (let n = 0; !scanner.step(budget); n++) if (n > 1_000_000) throw new Error("does not end");
  return scanner;
}

/** Each member's key and value as JSON reads them. */
function membersOf(text: string, budget?: number): [string, unknown][] {
  const bytes = Buffer.from(text);
  return scan(text, budget).members.map(({ key, valueStart, end }) => [
    key,
    JSON.parse(bytes.toString("utf8", valueStart, end)),
  ]);
}

describe("MemberScanner", () => {
  it("finds what JSON.parse() finds, whatever object, spacing and steps", () => {
    const object = fc.dictionary(
      fc.string().filter((key) => key !== "__proto__"),
      fc.jsonValue(),
      { maxKeys: 8 },
    );
    const space = fc.constantFrom(undefined, 1, "\t", "\r\n ");
    fc.assert(
      fc.property(object, space, fc.integer({ min: 1, max: 40 }), (value, indent, budget) => {
        const text = JSON.stringify(value, null, indent);
        const found = Object.fromEntries(membersOf(` ${text}\n`, budget));
        expect(found).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });

  it("keeps members of one name apart, in their order", () => {
    expect(membersOf('{"a":1,"a" : [2] ,"\\u0061":"}"}')).toEqual([
      ["a", 1],
      ["a", [2]],
      ["a", "}"],
    ]);
  });

  it("finds the ends of long strings, whatever backslashes stand before them", () => {
    const piece = fc.constantFrom("a".repeat(70), "\\", "\\".repeat(63), "\\".repeat(5_000), '"', "é", "b");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.constantFrom(50, 1_000, 100_000), (pieces, budget) => {
        const value = { a: pieces.join(""), b: [pieces.join("")], c: 1 };
        expect(Object.fromEntries(membersOf(JSON.stringify(value), budget))).toEqual(value);
      }),
      { numRuns: 300 },
    );
  });

  it("counts parts and depth", () => {
    const { parts, depth } = scan('{"a":[[{"b":{}}]],"c":"[[[["}');
    expect([parts, depth]).toEqual([5, 4]);
    expect(scan('{"ids":[1,2,3],"tools":[{"a":[1,2]}]}').parts).toBe(6);
  });

  it.each([
    "",
    "[]",
    "{",
    '{"a"',
    '{"a":',
    '{"a":}',
    '{"a":1',
    '{"a":1}x',
    '{"a":1 "b":2}',
    "{a:1}",
    '{"a":"',
    '{"a":[1,2',
  ])("refuses %j", (text) => {
    expect(() => scan(text)).toThrow(NotAnObject);
  });

  it("never hangs, and never takes for an object what is cut off", () => {
    const bits = fc.array(fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", "a", " ", "1"), { maxLength: 30 });
    fc.assert(
      fc.property(bits, fc.integer({ min: 1, max: 5 }), (parts, budget) => {
        const text = `{${parts.join("")}`;
        let valid = true;
        try {
          JSON.parse(text);
        } catch {
          valid = false;
        }
        let found: MemberScanner | undefined;
        try {
          found = scan(text, budget);
        } catch (e) {
          expect(e).toBeInstanceOf(NotAnObject);
        }
        if (valid) expect(found?.members.length).toBeGreaterThanOrEqual(Object.keys(JSON.parse(text)).length);
      }),
      { numRuns: 2000 },
    );
  });
});
