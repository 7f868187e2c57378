import { extname } from "node:path";
import type { TokenizerSource } from "../core/worker.ts";
import { findInHubCache } from "./hub-cache.ts";
import type { ModelFiles } from "./model-files.ts";
import { readModelFolder } from "./read-folder.ts";
import { readGguf } from "./read-gguf.ts";

/** Where a model's files may lie. */
export interface ModelPlace {
  /** What the worker announced. */
  readonly tokenizer: TokenizerSource;
  /** Names that may be hub repositories already downloaded, first match wins. */
  readonly repos: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Read a model's tokenizer and template: the announced GGUF or folder, else the hub cache of one of `repos`. Undefined when
 * nothing was announced and nothing is in the cache.
 * @throws CgnError MODEL_NOT_FOUND, STORAGE_UNUSABLE for an announced place that cannot be read
 */
export async function readModel(place: ModelPlace): Promise<ModelFiles | undefined> {
  const { dir, gguf } = place.tokenizer;
  if (gguf !== undefined) return readGguf(gguf);
  if (dir !== undefined && extname(dir).toLowerCase() === ".gguf") return readGguf(dir);
  // Engines take a repository name in the place of a folder.
  const inCache = dir === undefined ? undefined : await findInHubCache(dir, place.env);
  if (dir !== undefined) return readModelFolder(inCache ?? dir);
  for (const repo of place.repos) {
    const found = await findInHubCache(repo, place.env);
    if (found !== undefined) return readModelFolder(found);
  }
  return undefined;
}
