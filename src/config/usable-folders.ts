import { existsSync, lstatSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { CgnError } from "../core/errors.ts";
import type { WrittenFolder } from "./written-folders.ts";

/** Longest path that a Unix socket may have, in bytes: 108 with the closing zero on Linux, 104 on macOS. */
const SOCKET_PATH_BYTES = process.platform === "darwin" ? 103 : 107;

/**
 * Make the folders that were written in the configuration, and make sure that files can be made in them. Called at a daemon's
 * start, before anything runs. A disk without room is no reason to refuse: it may get some.
 * @param keys the written ones that this daemon uses
 * @throws CgnError STORAGE_UNUSABLE naming key, place, path and reason
 */
export function requireFolders(folders: readonly WrittenFolder[] | undefined, keys: readonly string[]): void {
  for (const folder of folders ?? []) {
    if (!keys.includes(folder.key)) continue;
    try {
      if (folder.sort === "folder") requireFolder(folder.path);
      else requireSocketPath(folder.path);
    } catch (cause) {
      throw unusable(folder, cause);
    }
  }
}

function requireFolder(path: string, mode?: number): void {
  makeFolder(path, mode);
  if (!statSync(path).isDirectory()) throw new Error("it is no folder");
  const probe = join(path, `.cgn-write-${process.pid}`);
  try {
    writeFileSync(probe, "");
  } catch (error) {
    if (!isFull(error)) throw error;
  } finally {
    rmSync(probe, { force: true });
  }
}

/** Node's own recursive mkdir never returns where a file system refuses new folders with ENOENT (`/proc`; Node 24). */
function makeFolder(path: string, mode: number | undefined): void {
  try {
    mkdirSync(path, mode);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EEXIST") return;
    if (code !== "ENOENT" || existsSync(dirname(path))) throw error;
    makeFolder(dirname(path), mode);
    mkdirSync(path, mode);
  }
}

function requireSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_BYTES)
    throw new Error(`it has ${bytes} bytes, and a socket's path at most ${SOCKET_PATH_BYTES}`);
  requireFolder(dirname(path), 0o700);
  const there = lstatSync(path, { throwIfNoEntry: false });
  // What is there is removed when nobody listens on it: never somebody's file.
  if (there !== undefined && !there.isSocket()) throw new Error("something that is no socket is there");
}

function isFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT";
}

function unusable({ key, place, path, sort }: WrittenFolder, cause: unknown): CgnError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const what = sort === "folder" ? "a folder" : "a socket in a folder";
  return new CgnError(
    "STORAGE_UNUSABLE",
    `Cannot use ${key} = "${path}" at ${place}: ${why}. Name ${what} that this user can make and write, or remove the key for its default`,
    { key, path, place },
    { cause },
  ) as CgnError;
}
