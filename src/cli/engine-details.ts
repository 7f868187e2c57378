import type { Agent } from "../agent/agent.ts";
import { lastLines } from "./last-lines.ts";

/** What the dashboard shows of engines that this process keeps, by worker id. */
export function engineDetails(agent: Agent | undefined): Readonly<Record<string, object>> {
  const all = agent?.status() ?? [];
  return Object.fromEntries(
    all.map(({ worker, kvOffload, spawned, pid, starts, progress, crashes, error }) => [
      worker.id,
      {
        spawned,
        starts,
        ...(kvOffload === undefined ? {} : { kvOffload }),
        ...(pid === undefined ? {} : { pid }),
        ...(progress === undefined ? {} : { progress }),
        ...(crashes ? { crashes } : {}),
        ...(error === undefined ? {} : { error: error.message }),
      },
    ]),
  );
}

/** A data-parallel rank writes into its engine's log. */
const engineOf = (worker: string): string => worker.replace(/#dp\d+$/, "");

/** The last lines that an engine wrote; undefined: none that this process started has that id. */
export async function engineLogs(
  agent: Agent | undefined,
  worker: string,
  lines: number,
): Promise<readonly string[] | undefined> {
  const id = engineOf(worker);
  const logFile = agent?.status().find((engine) => engine.worker.id === id)?.logFile;
  return logFile === undefined ? undefined : lastLines(logFile, lines, 2);
}
