import type { Settings } from "../config/settings.ts";
import { CgnError } from "../core/errors.ts";

/**
 * Commands that work on the engines of a file need one.
 * @param verb what cannot be done: "render", "start"
 * @throws CgnError CONFIG_INVALID when no engine is configured
 */
export function requireEngines(settings: Pick<Settings, "engines">, verb: string): void {
  if (settings.engines.length > 0) return;
  const problem = "no engine is configured";
  const remedy = 'Add [engine] with kind = "vllm" and a [models."NAME"], or name a file with --config';
  throw new CgnError("CONFIG_INVALID", `Cannot ${verb}: ${problem}. ${remedy}`, {
    problems: [{ severity: "error", path: "engine", problem, remedy }],
  });
}
