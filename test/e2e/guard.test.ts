import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fakePlan, freePort, openLab, pidsWith, printedPid, runs, until } from "../../src/process/testing/harness.ts";

const MINI_AGENT = fileURLToPath(new URL("../../src/process/testing/mini-agent.ts", import.meta.url));

/** What must be true five seconds after an agent's death; the guard needs about two, plus a busy machine. */
const GONE_MS = 5_000;

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "cgn-guard-"));
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("an agent that is killed with SIGKILL", () => {
  // From before the first process is made until all are up (0.3 to 0.6 s on a quiet machine).
  for (const afterMs of [0, 20, 60, 90, 120, 150, 200, 300, 500, "ready"] as const) {
    it.concurrent(`leaves no engine, child or sidecar: ${afterMs === "ready" ? "ready" : `${afterMs} ms after launch`}`, async () => {
      // Ends with a letter: no mark may be the beginning of another.
      const mark = `cgn-guard-test-${process.pid}-${afterMs}-x`;
      const agent = spawn(process.execPath, [MINI_AGENT, mark], {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, TMPDIR: scratch },
      });
      const lines = createInterface({ input: agent.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe("launching");
      if (afterMs === "ready") {
        expect((await lines.next()).value).toBe("ready");
        // Agent, engine, its child, sidecar.
        expect(pidsWith(mark)).toHaveLength(4);
      } else await new Promise((resolve) => setTimeout(resolve, afterMs));
      const gone = once(agent, "exit");
      agent.kill("SIGKILL");
      await gone;
      await until(`nothing of ${mark} runs`, () => pidsWith(mark).length === 0, GONE_MS);
      // Nor comes up later.
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(pidsWith(mark)).toEqual([]);
    }, 30_000);
  }
});

describe("a guard that is killed with SIGKILL", () => {
  it("ends its engine's group, and both start again", async () => {
    const lab = await openLab();
    try {
      const engine = lab.supervise(fakePlan(await freePort(), ["--spawn-child", "--ignore-sigterm"]));
      engine.start();
      const { pid = 0 } = await engine.settled();
      const child = printedPid(engine, "child");
      const [guard = 0] = pidsWith(`cgn-guard ${pid}`);
      process.kill(guard, "SIGTERM");
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(runs(guard)).toBe(true);
      process.kill(guard, "SIGKILL");
      await until("not ready", () => engine.status().at !== "ready");
      const again = await engine.settled();
      expect(again.at).toBe("ready");
      expect([runs(pid), runs(child)]).toEqual([false, false]);
      expect(pidsWith(`cgn-guard ${again.pid}`)).toHaveLength(1);
      await engine.stop();
      await until("guard gone", () => pidsWith(`cgn-guard ${again.pid}`).length === 0, 1_000);
    } finally {
      await lab.close();
    }
  });
});
