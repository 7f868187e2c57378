import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AnswerParser } from "./answer-parser.ts";

/** What a parser tells of bytes that come in these pieces; bodies are joined. */
function parse(pieces: readonly Buffer[], bodiless = false): string[] {
  const told: string[] = [];
  let body = "";
  const flush = (): void => {
    if (body !== "") told.push(body);
    body = "";
  };
  const parser = new AnswerParser({
    onHead: (status, headers) => void told.push(`${status} ${JSON.stringify(headers)}`),
    onBody: (bytes) => void (body += bytes.toString("latin1")),
    onAnswerEnd(reusable) {
      flush();
      told.push(reusable ? "end" : "end, close");
    },
  });
  parser.expect(bodiless);
  try {
    for (const piece of pieces) parser.push(piece);
    if (parser.endOfInput()) return told;
  } catch (e) {
    flush();
    told.push((e as Error).message);
    return told;
  }
  flush();
  return told;
}

const read = (text: string, bodiless = false): string[] => parse([Buffer.from(text, "latin1")], bodiless);
const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;

const ANSWERS = [
  `${OK}content-length: 2\r\nX-A:  1 \r\nx-a: 2\r\n\r\nhi`,
  `${OK}content-length: 0\r\n\r\n`,
  `${CHUNKED}3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\n\r\n`,
  `${CHUNKED}A \r\n0123456789\r\n00\r\nx-sum: 1\r\ny: 2\r\n\r\n`,
  `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${OK}content-length: 1\r\n\r\nx`,
  "HTTP/1.0 200\r\n\r\nuntil it closes",
  "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
];

describe("AnswerParser", () => {
  it.each([
    [ANSWERS[0]!, ['200 {"content-length":"2","x-a":["1","2"]}', "hi", "end"]],
    [ANSWERS[1]!, ['200 {"content-length":"0"}', "end"]],
    [ANSWERS[2]!, ['200 {"transfer-encoding":"chunked"}', "abcd", "end"]],
    [ANSWERS[3]!, ['200 {"transfer-encoding":"chunked"}', "0123456789", "end"]],
    [ANSWERS[4]!, ['200 {"content-length":"1"}', "x", "end"]],
    [ANSWERS[5]!, ["200 {}", "until it closes", "end, close"]],
    [ANSWERS[6]!, ['204 {"connection":"close"}', "end, close"]],
    ["HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", ['200 {"content-length":"1"}', "x", "end, close"]],
    ["HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", ['304 {"content-length":"9"}', "end"]],
  ])("push() reads %j", (text, told) => {
    expect(read(text)).toEqual(told);
  });

  it("push() expects no body of an answer to HEAD", () => {
    expect(read(`${OK}content-length: 5\r\n\r\n`, true)).toEqual(['200 {"content-length":"5"}', "end"]);
  });

  it.each([
    ["SSH-2.0-x\r\n\r\n"],
    ["HTTP/2 200\r\n\r\n"],
    ["HTTP/1.1 20 OK\r\n\r\n"],
    ["HTTP/1.1 101 Switching\r\n\r\n"],
    [`${OK}no colon\r\n\r\n`],
    [`${OK} folded: x\r\n\r\n`],
    [`${OK}a : x\r\n\r\n`],
    [`${OK}: x\r\n\r\n`],
    [`${OK}a: x\ny: z\r\n\r\n`],
    [`${OK}a: \0\r\n\r\n`],
    [`${OK}content-length: 1\r\ncontent-length: 1\r\n\r\nx`],
    [`${OK}content-length: -1\r\n\r\n`],
    [`${OK}content-length: 1, 1\r\n\r\n`],
    [`${OK}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`],
    [`${OK}transfer-encoding: gzip\r\n\r\n`],
    [`${CHUNKED}\r\n`],
    [`${CHUNKED}-1\r\n`],
    [`${CHUNKED}0x1\r\n`],
    [`${CHUNKED}1\nx`],
    [`${CHUNKED}1\r\nxy\r\n`],
    [`${CHUNKED}fffffffffffffff\r\n`],
    [`${CHUNKED}1;${"x".repeat(5_000)}\r\n`],
    [`${OK}x: ${"y".repeat(70_000)}\r\n\r\n`],
    [`${OK}x: ${"y".repeat(70_000)}`],
    [`${OK}content-length: 1\r\n\r\nxy`],
  ])("push() refuses %j", (text) => {
    const told = read(text).at(-1)!;
    expect(told).not.toMatch(/^(?:end|\d{3} )/);
    // Nobody else may find it in two pieces.
    expect(parse([Buffer.from(text.slice(0, 20), "latin1"), Buffer.from(text.slice(20), "latin1")]).at(-1)).toBe(told);
  });

  it("push() tells the same whatever the borders of what comes", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ANSWERS), fc.array(fc.nat(150), { maxLength: 8 }), (text, cuts) => {
        const bytes = Buffer.from(text, "latin1");
        const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
        const pieces = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
        expect(parse(pieces)).toEqual(parse([bytes]));
      }),
      { numRuns: 500 },
    );
  });

  it("push() never hangs, and throws nothing but what it should, whatever comes", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ANSWERS), fc.nat(120), fc.uint8Array({ maxLength: 6 }), (text, at, noise) => {
        const bytes = Buffer.from(text, "latin1");
        const cut = Math.min(at, bytes.length);
        const told = parse([Buffer.concat([bytes.subarray(0, cut), noise, bytes.subarray(cut)])]);
        for (const line of told) expect(line).not.toContain("undefined");
      }),
      { numRuns: 1_000 },
    );
  });

  it("stop() keeps what comes after from being told", () => {
    const told: string[] = [];
    const parser: AnswerParser = new AnswerParser({
      onHead: () => void told.push("head"),
      onBody(bytes) {
        told.push(bytes.toString());
        parser.stop();
      },
      onAnswerEnd: () => void told.push("end"),
    });
    parser.expect(false);
    parser.push(Buffer.from(`${CHUNKED}1\r\nx\r\n0\r\n\r\n`));
    parser.push(Buffer.from("anything"));
    expect(told).toEqual(["head", "x"]);
  });
});
