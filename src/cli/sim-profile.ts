import { CgnError } from "../core/errors.ts";
import { type EngineProfile, PROFILES } from "../sim/model/profile.ts";

/** @throws CgnError BAD_INVOCATION for a name that there is not */
export function findProfile(name: string, _cwd: string): EngineProfile {
  const found = PROFILES[name];
  if (found !== undefined) return found;
  throw new CgnError(
    "BAD_INVOCATION",
    `Cannot use profile "${name}": there is none of this name. Use one of ${Object.keys(PROFILES).join(", ")}`,
    { name },
  );
}
