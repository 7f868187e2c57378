import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RealEngine } from "./demo/real-engine.ts";

/** A relative path of a recipe that what `cgn demo --prepare` installs can stand in for. */
interface StandIn {
  readonly path: string;
  readonly key: string;
  readonly of: (engine: RealEngine) => string;
}

const STAND_INS: readonly StandIn[] = [
  { path: ".venv/bin/python", key: "engine.llama_cpp.binary", of: ({ python }) => python },
  { path: "models/SmolLM2-135M-Instruct.Q4_1.gguf", key: "models.smollm2.path", of: ({ gguf }) => gguf },
];

/** What a recipe is run with in place of files that are not there, and what a person is told of it. */
export interface RecipeFiles {
  /** For `--set`. */
  readonly sets: readonly string[];
  readonly lines: readonly string[];
}

/**
 * Files that a recipe names and that are not there are taken from what `cgn demo --prepare` installed.
 * @param installed undefined: it installed nothing yet
 */
export function recipeFiles(
  recipe: string,
  cwd: string,
  installed: RealEngine | undefined,
  exists: (path: string) => boolean = existsSync,
): RecipeFiles {
  const missing = STAND_INS.filter(({ path }) => recipe.includes(`"${path}"`) && !exists(join(cwd, path)));
  if (missing.length === 0) return { sets: [], lines: [] };
  const names = missing.map(({ path }) => path).join(" and ");
  if (installed === undefined) {
    return { sets: [], lines: [`${names} is not here. cgn demo --prepare installs what can stand in for it (130 MB)`] };
  }
  return {
    sets: missing.map(({ key, of }) => `${key}=${of(installed)}`),
    lines: missing.map(({ path, of }) => `${path} is not here: ${of(installed)} of cgn demo --prepare is used`),
  };
}
