import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * How often the kernel has ended a process for want of memory: in this process's cgroup where it has one of its own (v2,
 * `memory.events`), else on the whole host (`/proc/vmstat`). Only differences mean something. Undefined where it is not told.
 */
export function readOomKills(root = "/"): number | undefined {
  const path = /^0::(\/.+)$/m.exec(read(join(root, "proc/self/cgroup")))?.[1];
  const own = path === undefined ? "" : read(join(root, "sys/fs/cgroup", path, "memory.events"));
  const count = /^oom_kill (\d+)$/m.exec(own)?.[1] ?? /^oom_kill (\d+)$/m.exec(read(join(root, "proc/vmstat")))?.[1];
  return count === undefined ? undefined : Number(count);
}

/** How many more there are since `before`. */
export function oomKillsSince(before: number | undefined): number {
  const now = readOomKills();
  return before === undefined || now === undefined ? 0 : Math.max(0, now - before);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
