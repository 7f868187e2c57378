import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CliContext } from "./command.ts";
import { COMMAND_GROUPS, COMMANDS } from "./commands.ts";
import { runProgram } from "./program.ts";
import { systemClock } from "./system-clock.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-replay-"));
  const rows = Array.from({ length: 120 }, (_, i) => ({
    timestamp: i * 500,
    input_length: 2000,
    output_length: 20,
    hash_ids: [0, i % 6, 100 + (i % 20), 1000 + i],
  }));
  writeFileSync(join(dir, "trace.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function cgn(...argv: readonly string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const cli: CliContext = {
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    env: {},
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: systemClock(),
  };
  const code = await runProgram(COMMANDS, argv, cli, { version: "0", groups: COMMAND_GROUPS });
  return { code, out: out.join("\n"), err: err.join("\n") };
}

describe("cgn replay", () => {
  it("prints one JSON object a run with the documented fields, the same each time", async () => {
    const argv = ["replay", "trace.jsonl", "--engines", "2", "--policy", "ttft", "--policy", "random", "--json"];
    const runs = (text: string) =>
      text.split("\n").map((line) => ({ ...(JSON.parse(line) as Record<string, unknown>), wallSeconds: 0 }));
    const first = runs((await cgn(...argv)).out);
    expect(first.map((run) => run["policy" as keyof typeof run])).toEqual(["ttft", "random"]);
    const fields = "trace requests policy routers engines blockSize seed hitRate hitRateCeiling ttftMs itlMs e2eMs";
    const more = "loadCv gpuSeconds completed rejected virtualSeconds wallSeconds";
    for (const field of `${fields} ${more}`.split(" ")) expect(first[0]).toHaveProperty(field);
    expect(first[0]).toMatchObject({ requests: 120, completed: 120, rejected: 0, blockSize: 512, engines: 2 });
    expect(runs((await cgn(...argv)).out)).toEqual(first);
  });

  it("refuses an offload without room, and a report that cannot be written, before it plays anything", async () => {
    const offload = cgn("replay", "trace.jsonl", "--kv-offload", "lmcache");
    await expect(offload).rejects.toMatchObject({
      code: "BAD_INVOCATION",
      message: expect.stringContaining("--host-gib"),
    });
    const report = cgn("replay", "trace.jsonl", "--report", "nowhere/report.html");
    await expect(report).rejects.toMatchObject({ code: "STORAGE_UNUSABLE" });
  });

  it("says why requests were refused that no engine's cache can hold", async () => {
    const { out } = await cgn("replay", "trace.jsonl", "--engines", "2", "--blocks", "3", "--json");
    const { rejected, notes } = JSON.parse(out);
    expect(rejected).toBe(120);
    expect(notes.join()).toContain(
      "120 requests were refused since prompt and answer are longer than an engine's cache of 1536",
    );
  });

  it("hits the ceiling with one engine, unlimited blocks and work that takes no time", async () => {
    const { out } = await cgn(
      "replay",
      "trace.jsonl",
      "--engines",
      "1",
      "--profile",
      "instant",
      "--blocks",
      "0",
      "--json",
    );
    const run = JSON.parse(out) as { hitRate: number; hitRateCeiling: number };
    expect(run.hitRate).toBeGreaterThan(0.5);
    expect(run.hitRate).toBe(run.hitRateCeiling);
  });

  it("writes a page that needs no network", async () => {
    const { code, out } = await cgn("replay", "trace.jsonl", "--policy", "ttft", "--report", "page.html");
    expect(code).toBe(0);
    expect(out).toContain("POLICY");
    const page = readFileSync(join(dir, "page.html"), "utf8");
    expect(page).toContain("uPlot");
    expect(page).not.toMatch(/(src|href)\s*=|@import|url\(http/);
    // The plots' script is put in as text: it must be a whole program.
    const scripts = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, text]) => text!);
    expect(scripts).toHaveLength(2);
    for (const script of scripts) expect(() => new Function(script)).not.toThrow();
  });

  it("says of a trace that is not there, or no file, what it is", async () => {
    const missing = expect.stringMatching(/^Cannot read the trace .*missing\.jsonl: there is no such file\./);
    await expect(cgn("replay", "missing.jsonl")).rejects.toMatchObject({ message: missing });
    const folder = expect.stringContaining("it is a folder");
    await expect(cgn("replay", ".")).rejects.toMatchObject({ message: folder });
  });

  it.each([
    [["--policy", "best"], "no such policy"],
    [["--fail", "0@soon"], "ENGINE@TIME+DURATION"],
    [["--fail", "9@1m+1m"], "counted from 0"],
    [["--pd", "0:2"], "PREFILL:DECODE"],
    [["--host-gib", "64"], "kv_offload is none"],
    [["--queue-timeout", "5"], "no duration"],
  ])("refuses %j", async (flags, why) => {
    await expect(cgn("replay", "trace.jsonl", ...flags)).rejects.toMatchObject({
      message: expect.stringContaining(why),
    });
  });
});

describe("cgn plan", () => {
  it("says the cheapest that holds, how sure it is and what breaks first, and writes its configuration", async () => {
    const { code, out } = await cgn(
      "plan",
      "trace.jsonl",
      "--ttft-p90",
      "2s",
      "--max-engines",
      "4",
      "--policy",
      "ttft",
      "--out",
      "cgn.toml",
    );
    expect(code).toBe(0);
    expect(out).toMatch(/Cheapest that holds: +\d engines?, policy ttft/);
    expect(out).toMatch(/How sure: +\d+ %/);
    expect(out).toContain("Breaks first:");
    const checked = await cgn("check", "--config", "cgn.toml");
    expect([checked.code, checked.err]).toEqual([0, expect.stringContaining("0 errors")]);
  });

  it("says when more engines do not help", async () => {
    const { code, out } = await cgn("plan", "trace.jsonl", "--ttft-p90", "20ms", "--max-engines", "2", "--no-split");
    expect(code).toBe(1);
    expect(out).toContain("More engines do not help");
  });

  it("needs a goal", async () => {
    await expect(cgn("plan", "trace.jsonl")).rejects.toMatchObject({ code: "BAD_INVOCATION" });
  });
});
