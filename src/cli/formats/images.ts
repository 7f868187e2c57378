import type { EngineKind } from "../../core/engine-kind.ts";
import { CgnError } from "../../core/errors.ts";
import { findEngine } from "../../engines/registry.ts";
import type { FormatOptions, RenderedEngine } from "./rendered-engine.ts";

/**
 * The container image of an engine: what was asked for, else the one that its project publishes for the newest version
 * that cgn knows.
 * @throws CgnError BAD_INVOCATION for a kind without one
 */
export function imageOf({ plan }: RenderedEngine, { image }: FormatOptions): string {
  const found = image ?? imageOfKind(plan.engine);
  if (found !== undefined) return found;
  const message = `Cannot write a container for ${plan.engine} "${plan.model}": no published image of it is known. Name one with --image`;
  throw new CgnError("BAD_INVOCATION", message, { kind: plan.engine });
}

function imageOfKind(kind: EngineKind): string | undefined {
  return findEngine(kind).image;
}
