import { CgnError } from "../../core/errors.ts";
import { findEngine } from "../../engines/registry.ts";
import type { FormatOptions, RenderedEngine } from "./rendered-engine.ts";

/**
 * The container image of an engine: what was asked for, else the one that its project publishes for the version that the plan
 * was rendered for (`--engine-version`, else the newest that cgn knows).
 * @throws CgnError BAD_INVOCATION for a kind without one
 */
export function imageOf({ plan, settings }: RenderedEngine, { image }: FormatOptions): string {
  const engine = findEngine(plan.engine);
  // `0.33.0+cpu` is a build; images are tagged by release.
  const version = settings.slot.engineVersion?.split("+")[0] ?? engine.newestVersion;
  const found = image ?? (version === undefined ? undefined : engine.image?.(version));
  if (found !== undefined) return found;
  const message = `Cannot write a container for ${plan.engine} "${plan.model}": no published image of it is known. Name one with --image`;
  throw new CgnError("BAD_INVOCATION", message, { kind: plan.engine });
}
