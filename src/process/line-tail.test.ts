import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLineTail } from "./line-tail.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("createLineTail()", () => {
  it("keeps the last lines, the open one included, without colours", () => {
    const tail = createLineTail(3);
    tail.push(bytes("a\nb\n\n\x1b[31mc\x1b[0m\r\nd\nope"));
    tail.push(bytes("n"));
    expect(tail.last(10)).toEqual(["c", "d", "open"]);
    expect(tail.last(1)).toEqual(["open"]);
  });

  it("shows a progress bar as a person would see it", () => {
    const tail = createLineTail();
    tail.push(bytes("Loading:  10%|#\rLoading:  90%|#########"));
    expect(tail.last(1)).toEqual(["Loading:  90%|#########"]);
    tail.push(bytes("\rLoading: 100%|##########\n"));
    expect(tail.last(5)).toEqual(["Loading: 100%|##########"]);
  });

  it("gives the same lines however the bytes are cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("a", "é", "漢", "😀", "\n", "b c"), { maxLength: 60 }),
        fc.integer({ min: 1, max: 7 }),
        (parts, size) => {
          const whole = bytes(parts.join(""));
          const [one, many] = [createLineTail(), createLineTail()];
          one.push(whole);
          for (let at = 0; at < whole.length; at += size) many.push(whole.subarray(at, at + size));
          expect(many.last(100)).toEqual(one.last(100));
        },
      ),
    );
  });
});
