import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { isCgnError } from "../core/errors.ts";
import { SILENT_LOG } from "../core/log.ts";
import type { DecisionRecord } from "./decisions.ts";
import { RequestLog } from "./request-log.ts";

let dir = "";
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "cgn-request-log-"))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const clock: Clock = { now: () => 0, wall: () => 1000, after: () => () => {} };
const record: DecisionRecord = {
  id: "1",
  at: 2000,
  model: "m",
  path: "/v1/chat/completions",
  stream: true,
  policy: "ttft",
  promptBytes: 5000,
  attempts: [],
  outcome: { result: "ok", totalMs: 10, promptTokens: 1200, completionTokens: 7 },
};

async function written(path: string, prompts: readonly string[]): Promise<readonly Record<string, unknown>[]> {
  const log = new RequestLog(path, clock, SILENT_LOG);
  for (const prompt of prompts) log.note(record, "", Buffer.from(prompt));
  log.close();
  return await expectLines(path, prompts.length + 1);
}

async function expectLines(path: string, count: number): Promise<readonly Record<string, unknown>[]> {
  await expect.poll(() => readFileSync(path, "utf8").split("\n").length - 1).toBe(count);
  return readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("RequestLog", () => {
  it("note() writes lengths and equal hashes for equal starts, and none of the prompt", async () => {
    const start = "a secret start ".repeat(200);
    const lines = await written(join(dir, "log"), [`${start}one`, `${start}two`]);
    expect(lines[0]).toMatchObject({ format: "cgn-request-log", version: 1, chunk_bytes: 2048 });
    expect(lines[1]).toMatchObject({ at: 2000, model: "m", prompt_tokens: 1200, output_tokens: 7, outcome: "ok" });
    const [first, second] = lines.slice(1).map((line) => line["blocks"] as string[]);
    expect(first).toHaveLength(2);
    expect(second![0]).toBe(first![0]);
    expect(second![1]).not.toBe(first![1]);
    expect(readFileSync(join(dir, "log"), "utf8")).not.toContain("secret");
  });

  it("note() salts: another process names the same prompt otherwise", async () => {
    const one = await written(join(dir, "one"), ["the same prompt"]);
    const two = await written(join(dir, "two"), ["the same prompt"]);
    expect(one[1]!["blocks"]).not.toEqual(two[1]!["blocks"]);
    expect(one[0]!["run"]).not.toBe(two[0]!["run"]);
  });

  it("a file that cannot be opened is refused at the start", () => {
    const opened = (): unknown => new RequestLog(join(dir, "no", "log"), clock, SILENT_LOG);
    expect(opened).toThrow(/router\.request_log/);
    try {
      opened();
    } catch (e) {
      expect(isCgnError(e, "STORAGE_UNUSABLE")).toBe(true);
    }
  });
});
