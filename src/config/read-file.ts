import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CgnError, type Problem } from "../core/errors.ts";

/** A larger configuration is a mistake: another file was named. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Where a configuration is looked for when none is named. */
export const SYSTEM_FILE = "/etc/cognitora/cognitora.toml";
export const LOCAL_FILE = "cgn.toml";

export interface ConfigText {
  /** As it was named; `./cgn.toml` for the one in the working folder. */
  readonly file: string;
  readonly text: string;
}

/**
 * Find and read the configuration: the named path, else `$CGN_CONFIG`, else `./cgn.toml`, else
 * `/etc/cognitora/cognitora.toml`.
 *
 * @returns undefined when none is named and none is there
 * @throws CgnError CONFIG_NOT_FOUND when a named one is not there; CONFIG_INVALID when it is no text
 */
export function findConfigText(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
): ConfigText | undefined {
  if (path !== undefined) return readNamed(path, cwd, "--config");
  const named = env.CGN_CONFIG;
  if (named !== undefined && named !== "") return readNamed(named, cwd, "$CGN_CONFIG");
  for (const file of [LOCAL_FILE, SYSTEM_FILE]) {
    if (isThere(resolveIn(cwd, file))) return readNamed(file, cwd, "the usual places");
  }
  return undefined;
}

const resolveIn = (cwd: string, file: string): string => (file.startsWith("/") ? file : join(cwd, file));

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function readNamed(file: string, cwd: string, namedBy: string): ConfigText {
  const path = resolveIn(cwd, file);
  let bytes: Buffer;
  try {
    const stat = statSync(path);
    if (stat.isDirectory())
      throw unusable(file, "it is a folder", `Name the file in it, for example ${join(file, LOCAL_FILE)}`);
    if (stat.size > MAX_BYTES) {
      throw unusable(
        file,
        `it has ${stat.size} bytes, and a configuration has at most ${MAX_BYTES}`,
        "Name a configuration file",
      );
    }
    bytes = readFileSync(path);
  } catch (e) {
    throw readFailure(e, file, namedBy);
  }
  return { file, text: decode(bytes, file) };
}

function decode(bytes: Buffer, file: string): string {
  if (bytes.includes(0)) throw unusable(file, "it is binary, not text", "Name a TOML file");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw unusable(file, "it is not UTF-8", "Save it as UTF-8");
  }
}

function readFailure(e: unknown, file: string, namedBy: string): unknown {
  const code = e instanceof Error && "code" in e ? e.code : undefined;
  if (code === "ENOENT" || code === "ENOTDIR") {
    const remedy = "Name a file that is there, or start from one in recipes/";
    return new CgnError(
      "CONFIG_NOT_FOUND",
      `Cannot read "${file}": it does not exist (named by ${namedBy}). ${remedy}`,
      {
        file,
        namedBy,
      },
    );
  }
  if (code === "EACCES" || code === "EPERM") {
    return unusable(file, "this user may not read it", "Give read permission, or run as its owner");
  }
  return e;
}

function unusable(file: string, problem: string, remedy: string): CgnError<"CONFIG_INVALID"> {
  const problems: Problem[] = [{ severity: "error", path: "", file, problem, remedy }];
  return new CgnError("CONFIG_INVALID", `Cannot use "${file}": ${problem}. ${remedy}`, { problems });
}
