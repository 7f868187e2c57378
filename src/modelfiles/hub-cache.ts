import { readdir, readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

/** Where Hugging Face libraries keep downloaded repositories: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, else the home folder. */
export function hubCacheDir(env: Env): string {
  if (env["HF_HUB_CACHE"]) return env["HF_HUB_CACHE"];
  if (env["HF_HOME"]) return join(env["HF_HOME"], "hub");
  return join(env["XDG_CACHE_HOME"] || join(env["HOME"] || homedir(), ".cache"), "huggingface", "hub");
}

/**
 * The folder of a repository (`org/name`) that was downloaded before: the snapshot that `refs/main` names, else the one
 * changed last. Undefined when it is not there; nothing is ever downloaded.
 */
export async function findInHubCache(repo: string, env: Env): Promise<string | undefined> {
  // A repository name is at most one slash of plain characters: nothing that could leave the cache.
  if (!/^[\w.-]+(\/[\w.-]+)?$/.test(repo) || repo.includes("..")) return undefined;
  const base = join(hubCacheDir(env), `models--${repo.replace("/", "--")}`);
  const main = (await readFile(join(base, "refs", "main"), "utf8").catch(() => "")).trim();
  if (/^[\w.-]+$/.test(main) && !main.includes("..")) {
    const dir = join(base, "snapshots", main);
    if (await isFolder(dir)) return dir;
  }
  let newest: { dir: string; changed: number } | undefined;
  for (const name of await readdir(join(base, "snapshots")).catch(() => [])) {
    const dir = join(base, "snapshots", name);
    const found = await stat(dir).catch(() => undefined);
    if (found?.isDirectory() && (newest === undefined || found.mtimeMs > newest.changed))
      newest = { dir, changed: found.mtimeMs };
  }
  return newest?.dir;
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}
