import { describe, expect, it } from "vitest";
import { type AttemptRecord, DecisionLog, type DecisionRecord } from "./decisions.ts";

function candidate(i: number): AttemptRecord["candidates"][number] {
  const terms = { baseMs: i + 0.25, waitMs: 0, fetchMs: 1 / 3, prefillMs: 12.5, interferenceMs: 0.125 };
  return {
    worker: `w${i}`,
    score: i + 0.5,
    ttftMs: 9.75,
    terms,
    othersMs: 0,
    cachedTokens: 16,
    uncachedTokens: i,
    inFlight: 2,
  };
}

function record(id: string, more: Partial<DecisionRecord> = {}, candidates = 2): DecisionRecord {
  const all = Array.from({ length: candidates }, (_each, i) => candidate(i));
  const attempt = {
    worker: "w1",
    node: "n",
    reason: "least predicted TTFT",
    predictedCachedTokens: 16,
    candidates: all,
  };
  const outcome = { result: "ok", status: 200, totalMs: 12.34, promptTokens: 250, completionTokens: 64 };
  const head = { id, at: 1_764_000_000_000, model: "m", path: "/v1/chat/completions", stream: false, policy: "ttft" };
  return { ...head, promptBytes: 1_024, attempts: [attempt], promptTokens: 250, decisionUs: 42, outcome, ...more };
}

const FULL: Partial<DecisionRecord> = {
  stream: true,
  subject: "team",
  traceId: "0af7651916cd43dd8448eb211c80319c",
  unmatched: "the engine does not read its cache for it",
  waitedMs: 5.5,
  queuedMs: 1,
  outcome: {
    ...{ result: "client_error", status: 404, ttftMs: 0, totalMs: 3, promptTokens: 0, completionTokens: 0 },
    ...{ cachedTokens: 16, prediction: { result: "in_flight", reason: "an event came late" } },
  },
};

describe("the log of decisions", () => {
  it("tells what was written down, packed or not", () => {
    const log = new DecisionLog(8);
    const records = [record("a"), record("b", FULL), record("c", {}, 0), record("d", {}, 1)];
    for (const each of records) log.add(each);
    expect(log.latest(8)).toEqual([...records].reverse());
    for (const each of records) log.settled(each);
    expect(log.latest(8)).toEqual([...records].reverse());
    expect(JSON.parse(JSON.stringify(log.find("b")))).toEqual(records[1]);
    expect(log.latest(2).map(({ id }) => id)).toEqual(["d", "c"]);
    expect(log.find("e")).toBeUndefined();
  });

  it("takes a packed record from what it was, so that later changes of the object are not told", () => {
    const log = new DecisionLog(4);
    const one = record("a");
    log.add(one);
    one.policy = "seen: it runs";
    expect(log.find("a")?.policy).toBe("seen: it runs");
    log.settled(one);
    one.policy = "not seen";
    expect(log.find("a")?.policy).toBe("seen: it runs");
  });

  it("keeps the last ones, of each id the newest", () => {
    const log = new DecisionLog(3);
    for (let i = 0; i < 10; i++) {
      const each = record(`id${i % 2}`, { promptTokens: i });
      log.add(each);
      if (i % 3 > 0) log.settled(each);
    }
    expect(log.latest(9).map(({ promptTokens }) => promptTokens)).toEqual([9, 8, 7]);
    expect(log.find("id0")?.promptTokens).toBe(8);
    log.settled(record("gone"));
    expect(log.latest(9)).toHaveLength(3);
  });

  it("makes room for more workers, and keeps what it has", () => {
    const log = new DecisionLog(10);
    const records = [2, 5, 64, 65, 3].map((workers) => record(`of ${workers}`, {}, workers));
    for (const each of records) {
      log.add(each);
      log.settled(each);
    }
    expect(log.latest(10)).toEqual([...records].reverse());
  });

  it("keeps as it is what was tried twice, split, failed or is part of a cascade", () => {
    const log = new DecisionLog(10);
    const [attempt] = record("").attempts as [AttemptRecord];
    const records = [
      record("twice", { attempts: [{ ...attempt, failed: "reset" }, attempt] }),
      record("split", { attempts: [{ ...attempt, prefill: attempt }] }),
      record("held", { attempts: [{ ...attempt, heldBack: { w0: "open" } }] }),
      record("step", { cascade: { chain: "auto", model: "m", step: 1, steps: 2 } }),
      record("elsewhere", { handedOver: "no engine is ready" }),
      record("failed", { outcome: { result: "upstream_error", error: "reset", totalMs: 1 } }),
      record("none", { attempts: [] }),
    ];
    for (const each of records) {
      log.add(each);
      log.settled(each);
    }
    expect(log.latest(10)).toEqual([...records].reverse());
  });
});
