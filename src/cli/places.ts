import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The package's root: two folders above this file, both in `src` and in `dist`. */
export const PACKAGE_ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Our own launchers (Python and Node scripts that stand in for an engine's command). */
export const LAUNCHERS = join(PACKAGE_ROOT, "launchers");

/** Where downloads may lie: the clone's ignored `.cache`, else the user's cache folder. */
export function cacheDir(env: Readonly<Record<string, string | undefined>>): string {
  if (existsSync(join(PACKAGE_ROOT, "tsconfig.json"))) return join(PACKAGE_ROOT, ".cache");
  return join(userCacheDir(env), "cgn");
}

/** The user's cache folder. A variable that is empty or no full path counts as not set, as the XDG specification has it. */
export function userCacheDir(env: Readonly<Record<string, string | undefined>>): string {
  const { XDG_CACHE_HOME: named = "", HOME: home } = env;
  return isAbsolute(named) ? named : join(home || homedir(), ".cache");
}
