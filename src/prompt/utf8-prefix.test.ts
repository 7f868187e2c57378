import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { utf8Prefix } from "./utf8-prefix.ts";

const isText = (bytes: Uint8Array): boolean => {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
};

/** The longest prefix that a decoder takes. */
function longest(bytes: Uint8Array): number {
  for (let end = bytes.length; ; end--) if (isText(bytes.subarray(0, end))) return end;
}

/** Can some three bytes make text of it? By trying what continuation bytes may follow. */
function canGoOn(bytes: Uint8Array): boolean {
  const ends = [
    [],
    [0x80],
    [0x90],
    [0xa0],
    [0xbf],
    [0x80, 0x80],
    [0x90, 0x80],
    [0xa0, 0x80],
    [0x90, 0x80, 0x80],
    [0x80, 0x80, 0x80],
  ];
  return ends.some((end) => isText(Uint8Array.of(...bytes, ...end)));
}

describe("utf8Prefix", () => {
  it("finds the longest text, and whether what is behind it may become one", () => {
    const text = fc.string({ unit: "binary", maxLength: 8 }).map((s) => new TextEncoder().encode(s));
    const bytes = fc.uint8Array({ maxLength: 5 });
    fc.assert(
      fc.property(text, bytes, fc.nat(3), (begin, end, cut) => {
        const all = Uint8Array.of(...begin.subarray(0, Math.max(0, begin.length - cut)), ...end);
        const { length, open } = utf8Prefix(all);
        expect(length).toBe(longest(all));
        expect(open).toBe(canGoOn(all.subarray(length)));
      }),
      { numRuns: 2_000 },
    );
  });
});
