import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { DEMO_CONFIG, demoFolder, runningDemos } from "./demo-folder.ts";

let cache: string;
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "cgn-cache-"));
});
afterEach(() => rmSync(cache, { recursive: true, force: true }));

// "cgn logs" said that there are no logs while a demo ran.
it("runningDemos() finds demos that run, not what dead ones left", () => {
  for (const pid of [process.pid, 2 ** 30]) {
    mkdirSync(demoFolder(cache, pid));
    writeFileSync(join(demoFolder(cache, pid), DEMO_CONFIG), "");
  }
  mkdirSync(join(cache, "demo-x"));
  mkdirSync(join(cache, "venv"));
  expect(runningDemos(cache)).toEqual([join(demoFolder(cache, process.pid), DEMO_CONFIG)]);
  expect(runningDemos(join(cache, "none"))).toEqual([]);
});
