import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakePlan, freePort, type Lab, openLab, runs, until } from "../../src/process/testing/harness.ts";

let lab: Lab;
let port: number;
beforeEach(async () => {
  lab = await openLab();
  port = await freePort();
});
afterEach(() => lab.close());

describe("PlanSupervisor on demand", () => {
  it("stop() and start() again are no crash: a new process, a higher epoch, no attempt counted", async () => {
    const engine = lab.supervise(fakePlan(port, []));
    let last = 0;
    for (let turn = 0; turn < 3; turn++) {
      engine.start();
      const { at, epoch, pid = 0 } = await engine.settled();
      expect(at).toBe("ready");
      expect(epoch).toBeGreaterThan(last);
      last = epoch;
      await engine.stop({ drainMs: 0, why: "makes room for b" });
      expect(runs(pid)).toBe(false);
      expect(engine.status()).toMatchObject({ at: "stopped", reason: "makes room for b", starts: turn + 1 });
    }
    expect(engine.seen.filter(({ at }) => at === "backoff")).toEqual([]);
  });

  it("start() takes a draining engine back as it is", async () => {
    const engine = lab.supervise(fakePlan(port, []), { drained: () => new Promise(() => {}) });
    engine.start();
    const { pid, epoch } = await engine.settled();
    const stopped = engine.stop({ drainMs: 60_000 });
    expect(engine.status().at).toBe("draining");
    engine.start();
    await stopped;
    expect(engine.status()).toMatchObject({ at: "ready", pid, epoch });
  });

  it("start() of one that is told to end waits for its end, so there are never two", async () => {
    const plan = fakePlan(port, ["--ignore-sigterm"], { stop: { graceMs: 300, drainsOnSigterm: true } });
    const engine = lab.supervise(plan);
    engine.start();
    const { pid = 0 } = await engine.settled();
    void engine.stop();
    engine.start();
    expect([engine.status().at, runs(pid)]).toEqual(["stopping", true]);
    await until("the second one runs", () => engine.status().starts === 2);
    expect(runs(pid)).toBe(false);
    expect((await engine.settled()).at).toBe("ready");
  });

  it("stop() cuts short a drain that waits when no time is left for it", async () => {
    const engine = lab.supervise(fakePlan(port, []), { drained: () => new Promise(() => {}) });
    engine.start();
    await engine.settled();
    const slow = engine.stop({ drainMs: 60_000 });
    await engine.stop({ drainMs: 0 });
    await slow;
    expect(engine.status().at).toBe("stopped");
  });
});
