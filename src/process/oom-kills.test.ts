import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readOomKills } from "./oom-kills.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "cgn-oom-"));
  mkdirSync(join(root, "proc/self"), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

it("readOomKills() prefers the count of its own cgroup to the host's", () => {
  expect(readOomKills(root)).toBeUndefined();
  writeFileSync(join(root, "proc/vmstat"), "nr_free_pages 7\noom_kill 12\n");
  expect(readOomKills(root)).toBe(12);
  writeFileSync(join(root, "proc/self/cgroup"), "0::/system.slice/cgn.service\n");
  expect(readOomKills(root)).toBe(12);
  const dir = join(root, "sys/fs/cgroup/system.slice/cgn.service");
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "memory.events"), "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n");
  expect(readOomKills(root)).toBe(1);
});
