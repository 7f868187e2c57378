import { describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { OPEN_MS } from "../routing/breaker.ts";
import type { LegEnd } from "./sinks.ts";
import { handClock } from "./testing/hand-clock.ts";
import { testWorker } from "./testing/test-router.ts";
import { signOf, WorkerHealth } from "./worker-health.ts";

const worker = testWorker("a", "http://127.0.0.1:1");
const sure = { reason: "refused: nobody", sure: true };

function rig() {
  const clock = handClock();
  const moves: string[] = [];
  let answers = false;
  let looks = 0;
  const health = new WorkerHealth({
    clock,
    log: SILENT_LOG,
    random: () => 1,
    look: async () => {
      looks++;
      return answers;
    },
    onChange: () => {},
    onMoved: (_id, { at }) => void moves.push(at),
  });
  return { clock, moves, health, looks: () => looks, answer: (yes: boolean) => void (answers = yes) };
}

describe("WorkerHealth", () => {
  it("looks at a worker itself before it risks a request, and tells when it is looked at again", async () => {
    const { clock, health, moves, looks, answer } = rig();
    health.told(worker, "bad", 0, sure);
    expect(health.heldBack(worker.id)).toBe("circuit open: refused: nobody; looked at again in 1.0 s");
    await clock.pass(OPEN_MS);
    expect([looks(), health.heldBack(worker.id)]).toEqual([1, expect.stringContaining("in 2.0 s")]);
    answer(true);
    await clock.pass(2 * OPEN_MS);
    expect(health.heldBack(worker.id)).toBeUndefined();
    health.begun(worker);
    expect(health.heldBack(worker.id)).toContain("half-open");
    health.told(worker, "good", clock.now());
    expect([health.heldBack(worker.id), moves]).toEqual([undefined, ["open", "half-open", "closed"]]);
    await clock.pass(60_000);
    expect(looks()).toBe(2);
  });

  it("stops looking, and forgets, when the process is another one or the worker is gone", async () => {
    const { clock, health, looks } = rig();
    health.told(worker, "bad", 0, sure);
    health.restarted(worker);
    expect(health.heldBack(worker.id)).toBeUndefined();
    health.told(worker, "bad", 0, sure);
    health.forget(worker.id);
    await clock.pass(60_000);
    expect([looks(), health.heldBack(worker.id)]).toEqual([0, undefined]);
  });
});

const failed = (kind: UpstreamFailure["kind"], phase: UpstreamFailure["phase"]): LegEnd => ({
  type: "retry",
  failure: { kind, phase, message: "x" },
});
const answered = (status: number): LegEnd => ({ type: "complete", status });

describe("signOf()", () => {
  it.each([
    ["200", answered(200), "good"],
    ["400", answered(400), "good"],
    ["429", answered(429), "good"],
    ["501", answered(501), "good"],
    ["500", answered(500), "bad"],
    ["the client left", { type: "left" } as LegEnd, "untold"],
    ["refused", failed("refused", "connect"), "bad"],
    ["no answer in time", failed("timeout", "head"), "bad"],
    ["no HTTP", failed("protocol", "head"), "bad"],
    ["cut amid the answer", failed("reset", "body"), "bad"],
    ["cut before the answer, on an idle connection", failed("reset", "head"), "untold"],
    ["gone, as the directory says", failed("lost", "body"), "untold"],
    ["an answer that cannot be passed on", failed("unusable", "body"), "untold"],
  ])("%s is %s", (_what, end, sign) => {
    expect(signOf(end, false).sign).toBe(sign);
  });

  it("a cut before the answer counts on a new connection, and only a refused one is sure", () => {
    expect(signOf(failed("reset", "head"), true).sign).toBe("bad");
    expect(signOf(failed("refused", "connect"), true).why?.sure).toBe(true);
    expect(signOf(failed("connect-timeout", "connect"), true).why?.sure).toBe(false);
  });
});
