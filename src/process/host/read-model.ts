import { constants } from "node:fs";
import { access, open, readdir, stat, statfs } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { ModelNeed } from "../../core/host-needs.ts";
import { isShortage } from "../shortage.ts";
import type { ModelState } from "./host-state.ts";
import { isWhole, shardsOf } from "./weight-files.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Where a hub name is looked for: `modelfiles/hub-cache.ts`, given from above since rooms of one tier do not meet. */
export type FindInHub = (repo: string, env: Env) => Promise<string | undefined>;

/** Weights in the formats that engines load, the preferred first: where safetensors lie, others are the same weights once more. */
const FORMATS = [/\.safetensors$/i, /\.gguf$/i, /\.(bin|pt|pth|npz)$/i];

/** A Git LFS pointer is a text of some 130 bytes. */
const POINTER_BYTES = 1_024;
const POINTER = "version https://git-lfs.github.com/spec/";

/** Look at what should be loaded. Reads directory entries, the weights' index and the heads of files only. */
export async function readModelState(need: ModelNeed, env: Env, findInHub: FindInHub): Promise<ModelState> {
  if (need.path !== undefined) {
    const local = await lookAt(resolve(need.path), need.layout);
    if (local.at !== undefined || local.unreadable !== undefined || need.repo === undefined) return local;
  }
  const cached = need.repo === undefined ? undefined : await findInHub(need.repo, env);
  const hubOffline = isOn(env["HF_HUB_OFFLINE"]) || isOn(env["TRANSFORMERS_OFFLINE"]);
  if (cached !== undefined) return { ...(await lookAt(cached, need.layout)), inHub: true, hubOffline };
  const free = await freeBytes(cacheFolder(env));
  return {
    hubOffline,
    ...(free === undefined ? {} : { hubFreeBytes: free }),
  };
}

const isOn = (value: string | undefined): boolean => /^(1|true|yes|on)$/i.test(value ?? "");

/** For its free room only: any folder of the same disk does. */
const cacheFolder = (env: Env): string =>
  env["HF_HUB_CACHE"] || env["HF_HOME"] || env["XDG_CACHE_HOME"] || env["HOME"] || "/";

async function lookAt(path: string, layout: ModelNeed["layout"]): Promise<ModelState> {
  try {
    const found = await stat(path);
    await access(path, found.isDirectory() ? constants.R_OK | constants.X_OK : constants.R_OK);
    return found.isDirectory() ? await lookAtFolder(path) : await lookAtFile(path, found.size, layout);
  } catch (error) {
    // Out of descriptors: that says nothing about the model.
    if (isShortage(error)) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    return code === "EACCES" || code === "EPERM" ? { unreadable: path } : {};
  }
}

async function lookAtFile(path: string, bytes: number, layout: ModelNeed["layout"]): Promise<ModelState> {
  const broken = (await isBroken(path, bytes, layout === "gguf" ? "gguf" : formatOf(path))) ? [path] : [];
  return { at: path, isFolder: false, weightBytes: bytes, broken };
}

async function lookAtFolder(at: string): Promise<ModelState> {
  const names = await readdir(at);
  const weights =
    FORMATS.map((format) => names.filter((name) => format.test(name))).find((found) => found.length > 0) ?? [];
  const broken: string[] = [];
  let weightBytes = 0;
  for (const name of weights) {
    const file = await stat(join(at, name)).catch(() => undefined);
    // A link into the hub's blobs that leads nowhere is half a download.
    if (file === undefined || (await isBroken(join(at, name), file.size, formatOf(name)))) broken.push(name);
    else weightBytes += file.size;
  }
  const hasConfig = names.includes("config.json") || names.includes("params.json");
  return { at, isFolder: true, hasConfig, weightBytes, broken, missing: await missingShards(at, names, weights) };
}

/** An index beside the weights names all files of one download. Mistral's `consolidated` files are the same weights once more. */
async function missingShards(at: string, names: readonly string[], weights: readonly string[]): Promise<string[]> {
  const format = weights.some((name) => /\.(bin|pt|pth)$/i.test(name)) ? "bin" : "safetensors";
  const index = names.find((name) => name.endsWith(`.${format}.index.json`));
  if (index === undefined) return [];
  const shards = await shardsOf(join(at, index));
  const missing = shards.filter((name) => !names.includes(name));
  const hasOther = missing.length === shards.length && weights.some((name) => /^consolidated/.test(name));
  return hasOther ? [] : missing;
}

type Format = Parameters<typeof isWhole>[2];

const formatOf = (name: string): Format =>
  /\.gguf$/i.test(name) ? "gguf" : /\.safetensors$/i.test(name) ? "safetensors" : "other";

async function isBroken(path: string, bytes: number, format: Format): Promise<boolean> {
  return bytes === 0 || (await isPointer(path, bytes)) || !(await isWhole(path, bytes, format));
}

async function isPointer(path: string, bytes: number): Promise<boolean> {
  if (bytes === 0 || bytes > POINTER_BYTES) return false;
  const handle = await open(path, "r").catch(() => undefined);
  if (handle === undefined) return false;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(POINTER.length), 0, POINTER.length, 0);
    return buffer.toString("latin1", 0, bytesRead) === POINTER;
  } finally {
    await handle.close();
  }
}

/** Free bytes for this user on the disk of a folder, or of its nearest parent that is there. */
export async function freeBytes(dir: string): Promise<number | undefined> {
  for (let at = resolve(dir); ; at = dirname(at)) {
    const found = await statfs(at).catch(() => undefined);
    if (found !== undefined) return found.bsize * found.bavail;
    if (dirname(at) === at) return undefined;
  }
}
