import type { Agent } from "../agent/agent.ts";
import type { EngineStatus } from "../agent/engine-status.ts";
import { type Progress, startProgress } from "./progress.ts";
import { stopped } from "./stop-code.ts";

/**
 * Shows the engines' start on stderr until each is ready or has failed. The bar is time against the deadline: engines do
 * not say how far they are, but their last log line does.
 * @returns undefined when the signal came first
 */
export async function showEngines(agent: Agent, signal: AbortSignal): Promise<readonly EngineStatus[] | undefined> {
  // Those that are loaded with their first request are waited for by nobody here.
  const isStarting = ({ worker }: EngineStatus): boolean => worker.state !== "unloaded" && worker.state !== "asleep";
  const total = agent.status().filter(isStarting).length;
  if (total === 0) return agent.settled();
  const bar: Progress = startProgress(total === 1 ? "engine" : `${total} engines`);
  const draw = (): void => {
    const all = agent.status();
    const loading = all.filter((e) => e.progress !== undefined);
    const slowest = loading.reduce((most, e) => Math.max(most, e.progress!.elapsedMs / e.progress!.deadlineMs), 0);
    const note = loading.map((e) => `${e.worker.id}: ${e.progress?.lastLine ?? ""}`)[0] ?? "";
    bar.update(slowest, `${all.filter((e) => e.worker.state === "ready").length} of ${total} ready  ${note}`);
  };
  const leave = agent.subscribe(draw);
  try {
    const all = await Promise.race([agent.settled(), stopped(signal)]);
    if (all === undefined) {
      bar.stop("stopped");
      return undefined;
    }
    bar.done(`${all.filter((e) => e.worker.state === "ready").length} of ${total} ready`);
    return all;
  } finally {
    leave();
  }
}
