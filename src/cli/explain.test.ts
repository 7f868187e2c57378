import { describe, expect, it } from "vitest";
import type { DecisionRecord } from "../router/decisions.ts";
import { printDecision } from "./explain.ts";

const terms = { baseMs: 20, waitMs: 0, fetchMs: 0, prefillMs: 6, interferenceMs: 0 };
const candidate = (worker: string, cachedTokens: number) => ({
  worker,
  score: 26,
  ttftMs: 26,
  terms,
  othersMs: 4,
  cachedTokens,
  uncachedTokens: 20,
  inFlight: 0,
});

const record: DecisionRecord = {
  id: "r1",
  at: 0,
  model: "m",
  path: "/v1/chat/completions",
  stream: true,
  policy: "ttft",
  promptBytes: 240,
  promptTokens: 60,
  attempts: [
    {
      worker: "a",
      node: "a",
      reason: "least predicted TTFT: 26.0 ms, 40 tokens cached",
      predictedCachedTokens: 40,
      candidates: [candidate("a", 40), candidate("b", 0)],
    },
  ],
  outcome: { result: "ok", status: 200, totalMs: 99.5, ttftMs: 30, promptTokens: 61, cachedTokens: 41 },
};

function printed(r: DecisionRecord): string {
  const lines: string[] = [];
  printDecision(r, { out: (text) => void lines.push(text) });
  return lines.join("\n");
}

describe("printDecision()", () => {
  it("shows candidates, their terms, prediction and outcome", () => {
    expect(printed(record)).toMatchInlineSnapshot(`
      "r1  /v1/chat/completions  model m  stream  1970-01-01T00:00:00.000Z
      prompt 240 bytes, about 60 tokens

      a by ttft: least predicted TTFT: 26.0 ms, 40 tokens cached
      worker  TTFT ms  base  wait  fetch  prefill  interf.  others  cached  to do  in flight
      * a        26.0  20.0   0.0    0.0      6.0      0.0     4.0      40     20          0
        b        26.0  20.0   0.0    0.0      6.0      0.0     4.0       0     20          0

      outcome ok, HTTP 200, 99.5 ms
      cached tokens: predicted 40, engine 41 of 61
      TTFT: predicted 26.0 ms, seen 30.0 ms"
    `);
  });

  it("says which engine went on with a stream, and after how much of it", () => {
    const [first] = record.attempts;
    const cut = { ...first!, failed: "reset: the engine closed the connection" };
    const text = printed({ ...record, attempts: [cut, { ...first!, worker: "b", node: "b", continues: 7 }] });
    expect(text).toMatch(
      /try 1: a .*failed: reset: the engine closed.*try 2: b .*goes on with the stream after 7 tokens/s,
    );
  });

  it("says that the engine reported no cached tokens", () => {
    const outcome = { result: "upstream_error", status: 500, totalMs: 3 } as const;
    expect(printed({ ...record, outcome })).toContain("cached tokens: predicted 40, the engine reported none");
  });

  it("says why a try failed, and that a request still runs", () => {
    const { outcome: _outcome, ...rest } = record;
    const text = printed({ ...rest, attempts: [{ ...record.attempts[0]!, failed: "refused: nobody listens" }] });
    expect(text).toContain("failed: refused: nobody listens");
    const heldBack = { b: "circuit open: it answered 503; looked at again in 1.0 s" };
    const passed = printed({ ...rest, attempts: [{ ...record.attempts[0]!, heldBack }] });
    expect(passed).toContain("passed over b: circuit open: it answered 503");
    expect(text).toContain("still running");
  });

  it("shows both legs of a split request, with the prediction that counts, and why another was not split", () => {
    const [decode] = record.attempts;
    const prefill = { ...decode!, worker: "p", node: "p", reason: "the only one", candidates: [candidate("p", 48)] };
    const text = printed({
      ...record,
      attempts: [{ ...decode!, reason: "least load", prefill: { ...prefill, predictedCachedTokens: 48 } }],
    });
    expect(text).toMatch(/^prefill on p by ttft: the only one$/m);
    expect(text).toMatch(/^\* p +26\.0 +20\.0 .* 48 +20 +0$/m);
    expect(text).toMatch(/^decode on a: least load \(base: the hand-over\)$/m);
    expect(text).toMatch(/^\* a +26\.0/m);
    expect(text).toContain("cached tokens: predicted 48, engine 41 of 61");
    expect(text).toContain("TTFT: predicted 52.0 ms, seen 30.0 ms");
    const whole = printed({ ...record, attempts: [{ ...decode!, whole: "n is above 1" }] });
    expect(whole).toContain("not split: n is above 1");
  });
});
