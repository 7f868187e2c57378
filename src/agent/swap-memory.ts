import type { WorkerId } from "../core/ids.ts";
import type { SwapEngine, SwapRules } from "../core/swap-rules.ts";
import type { Residency } from "./swap-plan.ts";

/** Whom to unload for an engine, and whether it fits into the budget then. */
export interface Victims {
  readonly engines: readonly SwapEngine[];
  readonly fits: boolean;
}

/**
 * Whom to unload so that an engine fits into the memory budget: those that leave already, then the longest unused. Persistent ones
 * and those that somebody who waited longer claims stay. One that is too large for the budget fits when it is alone.
 *
 * @param staying residents that do not have to leave for another reason
 */
export function chooseVictims(
  engine: SwapEngine,
  staying: readonly SwapEngine[],
  claims: readonly SwapEngine[],
  rules: SwapRules,
  at: (id: WorkerId) => Residency,
): Victims {
  if (rules.memoryBytes === undefined || engine.memoryBytes === 0) return { engines: [], fits: true };
  const counted = staying.filter((other) => other.memoryBytes > 0);
  let over = engine.memoryBytes + counted.reduce((sum, other) => sum + other.memoryBytes, 0) - rules.memoryBytes;
  const leaves = ({ id }: SwapEngine): number => (at(id).phase === "unloading" || at(id).phase === "leaving" ? 0 : 1);
  const movable = counted
    .filter((other) => other.group?.persistent !== true && !claims.includes(other))
    .sort((a, b) => leaves(a) - leaves(b) || at(a.id).usedMs - at(b.id).usedMs);
  const victims: SwapEngine[] = [];
  for (const other of movable) {
    if (over <= 0) break;
    over -= other.memoryBytes;
    victims.push(other);
  }
  return { engines: victims, fits: over <= 0 || victims.length === counted.length };
}
