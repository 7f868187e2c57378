import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { distance } from "fastest-levenshtein";
import { CgnError } from "../../core/errors.ts";
import { type EngineProfile, PROFILES } from "../model/profile.ts";
import { parseProfile } from "./profile-file.ts";

/** The profiles that ship with the package. */
const FOLDER = fileURLToPath(new URL("../../../profiles/", import.meta.url));

/** All profiles by name: those that are no machine's first, then the files that ship. */
export function listProfiles(): readonly EngineProfile[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json"));
  return [...Object.values(PROFILES), ...files.sort().map((file) => readProfile(join(FOLDER, file)))];
}

/**
 * The profile of that name, or in that file.
 * @param cwd what a relative path starts from
 * @throws CgnError BAD_INVOCATION when there is neither, or the file is wrong
 */
export function findProfile(nameOrFile: string, cwd: string): EngineProfile {
  const builtIn = Object.hasOwn(PROFILES, nameOrFile) ? PROFILES[nameOrFile] : undefined;
  if (builtIn !== undefined) return builtIn;
  if (/[/\\]|\.json$/.test(nameOrFile)) return readProfile(resolve(cwd, nameOrFile));
  const all = listProfiles();
  const found = all.find(({ name }) => name === nameOrFile);
  if (found !== undefined) return found;
  const names = all.map(({ name }) => name).sort((a, b) => distance(a, nameOrFile) - distance(b, nameOrFile));
  const message = `Cannot use profile "${nameOrFile}": there is none of this name. Use ${names.slice(0, 4).join(", ")}, …`;
  throw new CgnError("BAD_INVOCATION", `${message} (cgn sim profiles lists them), or a file`, { name: nameOrFile });
}

function readProfile(path: string): EngineProfile {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (e) {
    const why = (e as NodeJS.ErrnoException).code === "ENOENT" ? "there is no such file" : (e as Error).message;
    throw new CgnError("BAD_INVOCATION", `Cannot read profile ${path}: ${why}. cgn sim profiles lists names`, { path });
  }
  return parseProfile(text, path);
}
