import { spawn } from "node:child_process";
import { describe, expect, it } from "vitest";
import { isLaunch, runningLaunch, variableOf } from "./running.ts";

describe("isLaunch()", () => {
  const argv = ["vllm", "serve", "/m", "--port", "8000"];
  it.each([
    [["/venv/bin/python3", "/venv/bin/vllm", "serve", "/m", "--port", "8000"], true],
    [["/venv/bin/vllm", "serve", "/m", "--port", "8000"], true],
    [["/venv/bin/vllm", "serve", "/m", "--port", "8001"], false],
    [["serve", "/m", "--port", "8000"], false],
    [["VLLM::EngineCore"], false],
    [[], false],
  ])("%j is %s", (words, is) => {
    expect(isLaunch(words, argv)).toBe(is);
    expect(isLaunch(words, ["vllm"])).toBe(false);
  });
});

describe.runIf(process.platform === "linux")("runningLaunch()", () => {
  it("finds a launch from a process that descends from it, and what it was started with", async () => {
    const words = ["-e", "setInterval(() => {}, 1e6)", "serve", "--port", "1"];
    const child = spawn(process.execPath, words, { env: { PYTHONHASHSEED: "7" }, stdio: "ignore" });
    try {
      await new Promise((resolve) => child.once("spawn", resolve));
      const pid = child.pid ?? 0;
      expect(await runningLaunch(pid, ["engine", ...words])).toBe(pid);
      expect(await runningLaunch(pid, ["engine", "serve", "--port", "2"])).toBeUndefined();
      expect(await variableOf(pid, "PYTHONHASHSEED")).toBe("7");
      expect(await variableOf(pid, "NOT_SET")).toBeUndefined();
    } finally {
      child.kill("SIGKILL");
    }
  });
});
