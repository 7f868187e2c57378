import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { UpstreamHandler } from "../http/upstream.ts";
import type { JudgeInput } from "../routing/cascade-judge.ts";
import { AnswerTap } from "./answer-tap.ts";
import { logprobsOf, withoutLogprobs } from "./logprobs.ts";

/** What a relay gets through a tap, and its judge. */
function tapped(strip: "null" | "absent" | undefined) {
  const said = {
    bytes: "",
    inputs: [] as JudgeInput[],
    ended: false,
    headers: {} as Readonly<Record<string, unknown>>,
  };
  const to: UpstreamHandler = {
    onHead: (_status, headers) => void (said.headers = headers),
    onData: (chunk) => {
      said.bytes += chunk.toString("utf8");
      return true;
    },
    onEnd: () => {},
    onFailure: () => {},
  };
  const judge = {
    feed: (inputs: readonly JudgeInput[]) => void said.inputs.push(...inputs),
    ended: () => void (said.ended = true),
    decide: () => {},
  };
  return { said, tap: new AnswerTap(to, strip, judge) };
}

const EVENTS = { "content-type": "text/event-stream" };

const token = fc.record({
  text: fc.string({ unit: "grapheme", maxLength: 6 }),
  logprobs: fc.option(fc.array(fc.double({ min: -9, max: 0, noNaN: true }), { maxLength: 3 }), { nil: null }),
});
const stream = fc.record({
  tokens: fc.array(token, { maxLength: 12 }),
  cuts: fc.array(fc.nat(), { maxLength: 8 }),
  ends: fc.boolean(),
});

const chunkOf = ({ text, logprobs }: { text: string; logprobs: readonly number[] | null }, told: boolean): object => ({
  id: "x",
  choices: [
    {
      index: 0,
      delta: { content: text },
      logprobs: !told || logprobs === null ? null : { content: logprobs.map((logprob) => ({ token: "t", logprob })) },
      finish_reason: null,
    },
  ],
});

const DONE = "data: [DONE]\n\n";
const eventOf = (chunk: object): string => `data: ${JSON.stringify(chunk)}\n\n`;

function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...at, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : at[i - 1], end));
}

describe("AnswerTap", () => {
  it("shows each log probability once and takes out nothing else, wherever a stream is cut", () => {
    fc.assert(
      fc.property(stream, fc.boolean(), ({ tokens, cuts, ends }, strips) => {
        const raw = `: keepalive\n\n${tokens.map((each) => eventOf(chunkOf(each, true))).join("")}${ends ? DONE : ""}`;
        const { said, tap } = tapped(strips ? "null" : undefined);
        tap.onHead(200, EVENTS);
        for (const piece of pieces(Buffer.from(raw), cuts)) tap.onData(piece);
        tap.onEnd();
        const want = `: keepalive\n\n${tokens.map((each) => eventOf(chunkOf(each, !strips))).join("")}${ends ? DONE : ""}`;
        expect(said.bytes).toBe(want);
        expect(said.inputs.flatMap(({ logprobs }) => logprobs).map((p) => p + 0)).toEqual(
          tokens.flatMap(({ logprobs }) => logprobs ?? []).map((p) => p + 0),
        );
        expect(said.ended).toBe(ends);
      }),
    );
  });

  it("lets errors and what is no answer pass, bytes and head", () => {
    const { said, tap } = tapped("null");
    tap.onHead(400, { "content-type": "application/json", "content-length": "2" });
    tap.onData(Buffer.from("{}"));
    tap.onEnd();
    expect(said).toMatchObject({ bytes: "{}", inputs: [], ended: false, headers: { "content-length": "2" } });
  });

  it("does not tell the length of a whole answer that it shortens, and calls one that is cut no answer", () => {
    const whole = Buffer.from(
      JSON.stringify({ choices: [{ index: 0, text: "a", logprobs: { token_logprobs: [-1] } }] }),
    );
    const head = { "content-type": "application/json", "content-length": String(whole.length) };
    const one = tapped("absent");
    one.tap.onHead(200, head);
    one.tap.onData(whole.subarray(0, 9));
    one.tap.onData(whole.subarray(9));
    one.tap.onEnd();
    expect(one.said.headers).toEqual({ "content-type": "application/json", "transfer-encoding": "chunked" });
    expect(JSON.parse(one.said.bytes)).toEqual({ choices: [{ index: 0, text: "a" }] });
    expect(one.said).toMatchObject({ ended: true, inputs: [{ logprobs: [-1], ended: true }] });
    const cut = tapped("absent");
    cut.tap.onHead(200, head);
    cut.tap.onData(whole.subarray(0, 9));
    cut.tap.onEnd();
    expect(cut.said).toMatchObject({ bytes: whole.subarray(0, 9).toString(), ended: false, inputs: [] });
  });
});

describe("logprobsOf()", () => {
  it("reads what a real llama-server tells, and nothing is left of it afterwards", () => {
    const file = readFileSync(join(import.meta.dirname, "testdata/chat_logprobs.json"), "utf8");
    const { body } = JSON.parse(file).response;
    expect(logprobsOf(body, true)).toEqual([
      { choice: 0, logprobs: [-1.6629223823547363, -0.007979555055499077], generated: true, ended: true },
    ]);
    expect(JSON.stringify(withoutLogprobs(body, "absent"))).not.toContain("logprob");
  });

  it("takes null and what is no number for nothing told", () => {
    const choices = [{ index: 1, text: "a", logprobs: { token_logprobs: [null, -1, "x"] } }, { delta: {} }, 7];
    expect(logprobsOf({ choices }, false)).toEqual([
      { choice: 1, logprobs: [-1], generated: true, ended: false },
      { choice: 0, logprobs: [], generated: false, ended: false },
    ]);
    expect([logprobsOf(null, true), logprobsOf({ choices: 1 }, true)]).toEqual([[], []]);
  });
});
