import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const NAME = /^demo-(\d+)$/;

/** Where a demo keeps its configuration and its engines' logs, while it runs. */
export function demoFolder(cache: string, pid: number): string {
  return join(cache, `demo-${pid}`);
}

/** Name of the configuration in it. */
export const DEMO_CONFIG = "cgn.toml";

/** The configurations of demos that run now. */
export function runningDemos(cache: string): readonly string[] {
  if (!existsSync(cache)) return [];
  return readdirSync(cache)
    .filter((name) => isAlive(Number(NAME.exec(name)?.[1] ?? 0)))
    .map((name) => join(cache, name, DEMO_CONFIG))
    .filter((path) => existsSync(path));
}

function isAlive(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    // Another user's process is there too.
    return (e as NodeJS.ErrnoException).code === "EPERM";
  }
}
