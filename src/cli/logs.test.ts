import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import type { CliContext } from "./command.ts";
import { logsCommand } from "./logs.ts";
import { systemClock } from "./system-clock.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-logs-"));
  mkdirSync(join(dir, "log"));
  writeFileSync(
    join(dir, "cgn.toml"),
    `[agent]\nnode_id = "n"\nlog_dir = "${dir}/log"\n[engine]\nkind = "vllm"\n[models."org/m"]\n`,
  );
  writeFileSync(join(dir, "log", "n-org-m.log.1"), "one\ntwo\n");
  writeFileSync(join(dir, "log", "n-org-m.log"), "three\nfour\n");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function run(
  positionals: string[],
  options: Record<string, string | number | boolean>,
  signal = new AbortController().signal,
) {
  const out: string[] = [];
  const cli: CliContext = {
    out: (text) => void out.push(text),
    err: () => {},
    env: {},
    cwd: dir,
    color: false,
    signal,
    clock: systemClock(),
  };
  const done = logsCommand.run({ options: { lines: 50, ...options }, positionals }, cli);
  return { out, done };
}

it("logsCommand prints the last lines, over a rotation", async () => {
  const { out, done } = await run(["org/m"], { lines: 3 });
  await done;
  expect(out).toEqual(["two", "three", "four"]);
});

it("logsCommand shows sidecars too, each line with its name", async () => {
  writeFileSync(join(dir, "log", "n-org-m-lmcache.log"), "cache\n");
  const { out, done } = await run([], { lines: 1 });
  await done;
  expect(out).toEqual(["n/org/m | four", "n-org-m-lmcache | cache"]);
});

it("logsCommand names the engines that there are", async () => {
  const { done } = await run(["other"], {});
  const error = await done.catch((e: unknown) => e);
  expect(isCgnError(error, "BAD_INVOCATION") && error.message).toContain('no engine is called "other". Known: n/org/m');
});

it("logsCommand follows until it is told to end", async () => {
  const stop = new AbortController();
  const { out, done } = await run(["org/m"], { lines: 0, follow: true }, stop.signal);
  await new Promise((resolve) => setTimeout(resolve, 100));
  appendFileSync(join(dir, "log", "n-org-m.log"), "five\nsi");
  for (let i = 0; i < 100 && out.length === 0; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(out).toEqual(["five"]);
  stop.abort();
  expect(await done).toBe(0);
});

it("shows what was kept of the last good and the last bad run, and says when there is none", async () => {
  writeFileSync(join(dir, "log", "n-org-m.log.bad"), "boom\n");
  const { out, done } = await run([], { run: "bad" });
  await done;
  expect(out).toEqual(["boom"]);
  const none = await run(["org/m"], { run: "good" });
  await expect(none.done).rejects.toThrow(/^Cannot show the last good run of "org\/m": no run was stable/);
});
