import { describe, expect, it } from "vitest";
import { createSentMarks } from "./sent-marks.ts";

const prompt = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("marks of what was sent", () => {
  it("are given back once each, of equal prompts the oldest first", () => {
    const marks = createSentMarks<number>();
    for (let i = 0; i < 3; i++) marks.note("", prompt("same"), i);
    marks.note("root", prompt("same"), 10);
    marks.note("", prompt("other"), 20);
    expect(marks.take("root", prompt("same"))).toBe(10);
    expect(marks.take("", prompt("same"))).toBe(0);
    expect(marks.take("", prompt("same"))).toBe(1);
    expect(marks.take("", prompt("other"))).toBe(20);
    expect(marks.take("", prompt("other"))).toBeUndefined();
    marks.note("", prompt("same"), 3);
    expect(marks.take("", prompt("same"))).toBe(2);
    expect(marks.take("", prompt("same"))).toBe(3);
    expect(marks.take("", prompt("same"))).toBeUndefined();
  });

  it("are as many as there is room for, the newest", () => {
    const marks = createSentMarks<number>();
    for (let i = 0; i < 10_000; i++) marks.note("", prompt(`prompt ${i}`), i);
    const found = Array.from({ length: 10_000 }, (_, i) => marks.take("", prompt(`prompt ${i}`)));
    const first = found.findIndex((mark) => mark !== undefined);
    expect(found.length - first).toBe(8_192);
    expect(found.slice(first)).toEqual(Array.from({ length: 8_192 }, (_, i) => first + i));
  });

  it("find theirs whatever comes and goes", () => {
    const marks = createSentMarks<string>();
    const out: string[] = [];
    // A fixed sequence: taken from anywhere, noted anew.
    for (let i = 0, at = 1; i < 20_000; i++) {
      at = (at * 48_271) % 2_147_483_647;
      if (out.length < 200 || at % 2 === 0) {
        const text = `prompt ${at}`;
        marks.note("", prompt(text), text);
        out.push(text);
      } else {
        const [text = ""] = out.splice(at % out.length, 1);
        expect(marks.take("", prompt(text))).toBe(text);
      }
    }
    for (const text of out) expect(marks.take("", prompt(text))).toBe(text);
  });
});
