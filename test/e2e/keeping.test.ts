import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakePlan, freePort, type Lab, openLab, printedPid, runs, until } from "../../src/process/testing/harness.ts";

let lab: Lab;
let port: number;
beforeEach(async () => {
  lab = await openLab();
  port = await freePort();
});
afterEach(() => lab.close());

describe("supervisePlan() keeps an engine", () => {
  it.runIf(process.platform === "linux")("and ends what it left in a session of its own", async () => {
    // Broke: a daemon that an engine had started held its GPU memory after the engine's end.
    const engine = lab.supervise(fakePlan(port, ["--leak-session"]));
    engine.start();
    const { pid = 0 } = await engine.settled();
    const leaked = printedPid(engine, "child");
    process.kill(pid, "SIGKILL");
    await until("restarted", () => engine.status().at === "ready" && engine.status().pid !== pid);
    expect(runs(leaked)).toBe(false);
    const next = printedPid(engine, "child");
    expect(runs(next)).toBe(true);
    await engine.stop();
    expect(runs(next)).toBe(false);
  });

  it("with the logs of the last good and the last bad run, named when it is given up", async () => {
    // Ends after it was stable, and then again and again.
    const plan = fakePlan(port, ["--exit-after", "500", "--code", "3", "--say", "boom: no such thing"]);
    const engine = lab.supervise(plan, { policy: { stableMs: 50, maxAttempts: 3 } });
    engine.start();
    await until(
      "a good run and a loop",
      () => engine.status().looping && engine.status().goodLog !== undefined,
      10_000,
    );
    const { goodLog = "", badLog = "", crashes, error } = engine.status();
    expect(goodLog).toBe(`${engine.logFile}.good`);
    expect(readFileSync(goodLog, "utf8")).toMatch(/^engine \d+\nboom: no such thing\n$/);
    expect(readFileSync(badLog, "utf8")).toContain("boom");
    expect(crashes).toMatch(/^ended \d+ times within \d+s$/);
    if (error !== undefined)
      expect(error.message).toMatch(/ended \d+ times .*\.log\.bad; the last good run: .*\.log\.good/);
  });

  it("and starts one again that computes nothing for its requests", async () => {
    const number = (text: string, name: string): number => Number(new RegExp(`${name} (\\d+)`).exec(text)?.[1]);
    const engine = lab.supervise(fakePlan(port, ["--running", "2"]), {
      healthEveryMs: 50,
      policy: { sickMs: 200 },
      work: {
        url: `http://127.0.0.1:${port}/metrics`,
        timeoutMs: 400,
        parse: (text) => ({ running: number(text, "running"), progress: number(text, "progress") }),
      },
    });
    engine.start();
    const { pid } = await engine.settled();
    await until("restarted", () => engine.status().starts === 2, 10_000);
    expect(engine.seen.map(({ at, reason }) => `${at}: ${reason}`)).toContainEqual(
      expect.stringMatching(/^sick: stalled: 2 requests on it and nothing computed for /),
    );
    expect(runs(pid ?? 0)).toBe(false);
  });

  it.runIf(process.platform === "linux")("with a higher oom_score_adj than its own", async () => {
    const own = Number(readFileSync("/proc/self/oom_score_adj", "utf8"));
    const engine = lab.supervise(fakePlan(port, []), { oomScoreAdj: Math.min(1_000, own + 100) });
    engine.start();
    const { pid = 0 } = await engine.settled();
    expect(Number(readFileSync(`/proc/${pid}/oom_score_adj`, "utf8"))).toBe(Math.min(1_000, own + 100));
  });

  it("and bounds the log of one that outlives its agent", async () => {
    const bounds = { fileBytes: 2_000_000, files: 2 };
    const over = { keepIn: join(lab.dir, "kept"), logBounds: bounds };
    const first = lab.supervise(fakePlan(port, ["--spam-log"]), over);
    first.start();
    const { pid, epoch } = await first.settled();
    await first.release();
    // Nobody of ours is there now; the file is truncated every two seconds all the same.
    await until("rotated", () => existsSync(`${first.logFile}.1`), 15_000);
    const { mtimeMs } = statSync(`${first.logFile}.1`);
    await until("rotated again", () => statSync(`${first.logFile}.1`).mtimeMs > mtimeMs, 15_000);
    const second = lab.supervise(fakePlan(port, ["--spam-log"]), over);
    second.start();
    await second.settled();
    expect(second.status()).toMatchObject({ pid, epoch, starts: 0 });
    await until("its output is read on", () => second.tail(5).some((line) => line.startsWith("spam")), 10_000);
  }, 60_000);
});
