import { describe, expect, it } from "vitest";
import type { Turn } from "./chats.ts";
import { brokenPromises, report } from "./report.ts";

const turn = (over: Partial<Turn>): Turn => ({
  title: "chat A, turn 1",
  requestId: "r1",
  node: "n/0",
  predicted: 0,
  reported: 0,
  promptTokens: 400,
  completionTokens: 20,
  ttftMs: 1500,
  totalMs: 1700,
  answer: "",
  ...over,
});

const GOOD = [
  turn({}),
  turn({ title: "chat B", requestId: "r2", node: "n/1" }),
  turn({ title: "turn 2", requestId: "r3", predicted: 420, reported: 419, ttftMs: 90 }),
];

describe("report()", () => {
  it("shows each request with its figures and the reason", () => {
    const lines = report(GOOD, new Map([["r3", "420 tokens are there"]]));
    expect(lines[0]).toMatch(/request +engine +prompt +predicted +reported +TTFT/);
    expect(lines[4]).toMatch(/turn 2 +n\/0 +400 +420 +419 +90 ms/);
    expect(lines).toContain("turn 2 → n/0: 420 tokens are there");
    expect(lines.join("\n")).toContain("predicted 420, reported by the engine 419");
  });
});

// The table was 148 columns wide with the reasons in it, and wrapped.
describe("report() on a terminal of 80 columns", () => {
  it("has no longer line, whatever the reasons are", () => {
    const reason = "near tie (0.0 ms above the least): its cache is emptier or it is this prefix's home";
    const lines = report(GOOD, new Map(GOOD.map(({ requestId }) => [requestId, reason])));
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(lines.join(" ").replace(/ +/g, " ")).toContain(`turn 2 → n/0: ${reason}`);
  });
});

describe("brokenPromises()", () => {
  it("is empty when all hold", () => expect(brokenPromises(GOOD)).toEqual([]));

  it("names a prediction that is off by more than 2, a wrong engine, and a missing figure", () => {
    expect(brokenPromises([GOOD[0]!, GOOD[1]!, turn({ predicted: 420, reported: 400 })])).toEqual([
      "turn 2: 420 cached tokens were predicted, 400 reported",
    ]);
    expect(brokenPromises([GOOD[0]!, turn({}), turn({ node: "n/1", predicted: 1, reported: 0 })])).toEqual([
      "turn 2 went to n/1, but turn 1 to n/0",
      "the unrelated chat went to n/0, where chat A is",
      "turn 2 had no prefix hit",
    ]);
    expect(brokenPromises([GOOD[0]!, GOOD[1]!, turn({ reported: undefined })])).toEqual([
      "the engine reported no cached tokens for turn 2",
    ]);
    expect(brokenPromises([])).toEqual(["a request is missing"]);
  });

  it("lets the first answer's tokens be reported above a prediction from what was sent, no more", () => {
    const second = (reported: number) => [GOOD[0]!, GOOD[1]!, turn({ predicted: 400, reported })];
    expect(brokenPromises(second(420), false)).toEqual([]);
    expect(brokenPromises(second(430), false)).toHaveLength(1);
    expect(brokenPromises(second(390), false)).toHaveLength(1);
  });
});
