import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SseSplitter } from "./sse.ts";

function split(chunks: readonly Buffer[]): { raw: string[]; data: (string | undefined)[]; rest: string } {
  const raw: string[] = [];
  const data: (string | undefined)[] = [];
  const splitter = new SseSplitter();
  for (const chunk of chunks) {
    splitter.push(chunk, (event) => {
      raw.push(event.raw.toString());
      data.push(event.data?.toString());
    });
  }
  return { raw, data, rest: splitter.flush()?.toString() ?? "" };
}

const one = (text: string) => split([Buffer.from(text)]);

describe("SseSplitter", () => {
  it("push() gives each event with its data and its bytes", () => {
    const { raw, data } = one("data: a\n\ndata:b\n\n");
    expect(raw).toEqual(["data: a\n\n", "data:b\n\n"]);
    expect(data).toEqual(["a", "b"]);
  });

  it("push() takes CRLF, comments, other fields, and joins several data lines", () => {
    const { data } = one(": keepalive 1/1\r\n\r\nevent: x\r\nid: 1\r\ndata: a\r\ndata:  b\r\n\r\n");
    expect(data).toEqual([undefined, "a\n b"]);
  });

  it("push() takes data: only at a line's start", () => {
    expect(one('x data: no\ndata: {"a":"data: b"}\n\n').data).toEqual(['{"a":"data: b"}']);
  });

  it("flush() gives what is not complete", () => {
    const { data, rest } = one("data: a\n\ndata: hal");
    expect(data).toEqual(["a"]);
    expect(rest).toBe("data: hal");
  });

  it("push() gives the same whatever the chunks' borders", () => {
    const line = fc.constantFrom("data: a", "data:", "data", ": c", "event: e", "", 'data: {"x":1}', "é data: z");
    const stream = fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n")), { maxLength: 30 });
    fc.assert(
      fc.property(stream, fc.array(fc.nat(40), { maxLength: 40 }), (lines, cuts) => {
        const bytes = Buffer.from(lines.map(([text, end]) => text + end).join(""));
        const chunks: Buffer[] = [];
        let at = 0;
        for (const cut of cuts) {
          chunks.push(bytes.subarray(at, at + cut));
          at += cut;
        }
        chunks.push(bytes.subarray(at));
        const whole = split([bytes]);
        expect(split(chunks)).toEqual(whole);
        expect(whole.raw.join("") + whole.rest).toBe(bytes.toString());
      }),
      { numRuns: 300 },
    );
  });

  it("overflowed turns true for an event without end", () => {
    const splitter = new SseSplitter(10);
    splitter.push(Buffer.from("data: 0123456789"), () => {});
    expect(splitter.overflowed).toBe(true);
  });
});
