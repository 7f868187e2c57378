import { describe, expect, it } from "vitest";
import { noFacts } from "./answer.ts";
import { outcomeOf, wholeTtftMs } from "./settle.ts";

describe("outcomeOf()", () => {
  // Engines' answers to bad requests were counted as the engines' failures, since their bodies have an `error`.
  it("blames the client for 4xx and 501, the engine for 5xx and an error within a stream", () => {
    const failed = { ...noFacts(), error: "mine" };
    for (const status of [400, 404, 422, 429, 501]) {
      expect(outcomeOf({ type: "complete", status } as never, failed), String(status)).toBe("client_error");
    }
    for (const status of [200, 500, 503]) {
      expect(outcomeOf({ type: "complete", status } as never, failed), String(status)).toBe("upstream_error");
    }
    expect(outcomeOf({ type: "complete", status: 200 } as never, noFacts())).toBe("ok");
  });
});

describe("wholeTtftMs()", () => {
  /** What an answer says that took 100 ms, where its first token was predicted after `ttftMs`. */
  const told = (completionTokens: number, ttftMs: number, more: object = {}): number | undefined => {
    const choice = { decision: { index: 0, candidates: [{ ttftMs }] } };
    const run = { choice, facts: { ...noFacts(), completionTokens }, sentMs: 1_000, ...more };
    return wholeTtftMs(run as never, 1_100);
  };

  it("is the time of an answer of one token, and says nothing of a longer one", () => {
    expect([told(1, 20), told(2, 20), told(500, 90)]).toEqual([100, undefined, undefined]);
  });

  it("is no more than the whole answer took, where much more was predicted", () => {
    expect([told(50, 150), told(50, 250)]).toEqual([undefined, 100]);
    expect(told(1, 20, { prefill: {} })).toBeUndefined();
  });
});
