import { readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { findInHubCache, hubCacheDir } from "../../modelfiles/hub-cache.ts";
import { installedEngine } from "../demo/real-engine.ts";
import { cacheDir, userCacheDir } from "../places.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A model that lies on this host. */
export interface FoundModel {
  /** A GGUF file, or a folder or hub repository in the Hugging Face layout. */
  readonly layout: "gguf" | "folder";
  /** What is written: a path, or the repository's name. */
  readonly target: string;
  /** The name that clients would use. */
  readonly name: string;
  readonly bytes?: number;
}

/** How deep below a folder is looked, and at how many entries in all. */
const DEPTH = 4;
const MOST = 5_000;

/** GGUF files in the folders where people and tools keep them, largest first, and the repositories of the hub's cache. */
export async function findModels(env: Env, cwd: string): Promise<FoundModel[]> {
  const home = env["HOME"] || homedir();
  const folders: readonly (readonly [string, number])[] = [
    [cwd, 1],
    [join(cwd, "models"), DEPTH],
    [join(home, "models"), DEPTH],
    [join(home, "Models"), DEPTH],
    ["/models", DEPTH],
    [join(userCacheDir(env), "llama.cpp"), 1],
    [join(home, ".lmstudio", "models"), DEPTH],
    [join(home, ".cache", "lm-studio", "models"), DEPTH],
    [hubCacheDir(env), DEPTH],
  ];
  const left = { entries: MOST };
  const files = new Map<string, FoundModel>();
  for (const [folder, depth] of folders) {
    for (const each of await ggufFiles(folder, depth, left)) files.set(each.target, each);
  }
  const demo = demoModel(env);
  const all = [...files.values()].sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
  return [...all, ...(demo === undefined || files.has(demo.target) ? [] : [demo]), ...(await hubModels(env))];
}

/** Files of one name with numbered parts are one model: the first part is what an engine is told. */
const LATER_PART = /-0*(?!0*1-of-)\d+-of-\d+\.gguf$/i;

async function ggufFiles(folder: string, depth: number, left: { entries: number }): Promise<FoundModel[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const found: FoundModel[] = [];
  for (const entry of entries) {
    if (left.entries-- <= 0) break;
    const path = join(folder, entry.name);
    if (entry.isDirectory() && depth > 1 && !entry.name.startsWith(".")) {
      found.push(...(await ggufFiles(path, depth - 1, left)));
    } else if (/\.gguf$/i.test(entry.name) && !LATER_PART.test(entry.name) && !/mmproj/i.test(entry.name)) {
      const bytes = (await stat(path).catch(() => undefined))?.size;
      if (bytes !== undefined) found.push({ layout: "gguf", target: path, name: modelName(path), bytes });
    }
  }
  return found;
}

function demoModel(env: Env): FoundModel | undefined {
  const gguf = installedEngine(cacheDir(env))?.gguf;
  return gguf === undefined ? undefined : { layout: "gguf", target: gguf, name: modelName(gguf) };
}

async function hubModels(env: Env): Promise<FoundModel[]> {
  const names = await readdir(hubCacheDir(env)).catch(() => []);
  const repos = names.flatMap((name) => /^models--(.+)$/.exec(name)?.[1]?.replace("--", "/") ?? []);
  const found = await Promise.all(
    repos.map(async (repo) => {
      const dir = await findInHubCache(repo, env);
      const has = dir !== undefined && (await stat(join(dir, "config.json")).catch(() => undefined)) !== undefined;
      return has ? ({ layout: "folder", target: repo, name: repo } as const) : undefined;
    }),
  );
  return found.flatMap((each) => each ?? []);
}

/** `/models/Qwen3-8B-Q4_K_M-00001-of-00002.gguf` → `Qwen3-8B-Q4_K_M`; a hub name stays as it is. */
export function modelName(target: string): string {
  if (/\.gguf$/i.test(target)) return basename(target).replace(/(-\d+-of-\d+)?\.gguf$/i, "");
  return /^[./~]/.test(target) ? basename(target) : target;
}
