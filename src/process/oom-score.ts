import { readFileSync } from "node:fs";

const MOST = 1_000;
/** How much more an engine is to be chosen by the kernel than the agent. */
const ABOVE_AGENT = 100;

/**
 * The `oom_score_adj` of an engine: when memory runs out the kernel ends the engine, which is started again, rather than the agent,
 * which would take all engines with it. What the unit or container gave the agent is respected: the engine's is 100 above it, and no
 * lower is asked for, which would want a privilege. Undefined where the kernel has none.
 */
export function engineOomScore(wanted: number | undefined, path = "/proc/self/oom_score_adj"): number | undefined {
  let own: number;
  try {
    own = Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
  return Math.min(MOST, Math.max(own, wanted ?? own + ABOVE_AGENT));
}
