import { tmpdir } from "node:os";
import { isAbsolute, relative } from "node:path";
import { CgnError, isCgnError } from "../core/errors.ts";
import { userCacheDir } from "./places.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** What the system means, where a file or folder cannot be used. */
const MEANS: Readonly<Record<string, string>> = {
  EROFS: "it is on a file system that is read-only",
  EACCES: "this user has no right to it",
  EPERM: "the system does not permit it",
  ENOSPC: "the disk is full",
  EDQUOT: "this user's quota of the disk is used up",
  ENOTDIR: "a part of its path is no folder",
};

/** Making a folder fails so too where the one above it is not there. */
const MAKES: ReadonlySet<string> = new Set(["mkdir", "mkdtemp"]);

/**
 * A failure of the file system that nobody expected where it happened, as what it is: nothing of ours is broken, a folder is. Undefined for anything else.
 */
export function storageFailure(thrown: unknown, env: Env): CgnError | undefined {
  if (isCgnError(thrown) || !(thrown instanceof Error)) return undefined;
  const { code = "", path, syscall = "" } = thrown as NodeJS.ErrnoException;
  const means = MEANS[code] ?? (code === "ENOENT" && MAKES.has(syscall) ? "no folder can be made there" : undefined);
  if (means === undefined || typeof path !== "string" || path === "") return undefined;
  const isFull = code === "ENOSPC" || code === "EDQUOT";
  const should = isFull ? "Make room there" : remedy(path, env);
  const verb = MAKES.has(syscall) ? "make" : "use";
  const message = `Cannot ${verb} ${path}: ${means}. ${should}`;
  return new CgnError("STORAGE_UNUSABLE", message, { file: path }, { cause: thrown }) as CgnError;
}

/** Folders that the environment moves. */
function remedy(path: string, env: Env): string {
  if (isBelow(path, userCacheDir(env))) return "Set XDG_CACHE_HOME to a folder that this user can write";
  if (isBelow(path, tmpdir())) return "Set TMPDIR to a folder that this user can write";
  return "Give this user the right to it, or name another place";
}

function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (!way.startsWith("..") && !isAbsolute(way));
}
