import { plannedEngines, unwantedKept } from "../agent/kept-engines.ts";
import { adoptedHere, seedProblems } from "../config/checks/adopted-seeds.ts";
import { type HostLaunch, hostLaunches, hostProblems } from "../config/checks/host-problems.ts";
import type { LoadedConfig } from "../config/load.ts";
import type { Problem } from "../core/errors.ts";
import { findInHubCache } from "../modelfiles/hub-cache.ts";
import { readHost } from "../process/host/read-host.ts";
import { readLaunch } from "../process/host/read-launch.ts";
import { variableOf } from "../process/host/running.ts";
import { belongsTo, keptText, type SortedKept } from "../process/kept-engines.ts";
import { findPortHolder } from "../process/port-holder.ts";
import type { CliContext } from "./command.ts";

/** Look at this host for the engines that these files would start here, and say what keeps them from working. Starts nothing. */
export async function checkHost(files: readonly LoadedConfig[], cli: Pick<CliContext, "env">): Promise<Problem[]> {
  const launches = hostLaunches(files);
  const states = await Promise.all(
    launches.map((launch) =>
      readLaunch(launch.needs, launch.plan, { env: environmentOf(launch, cli), findInHub: findInHubCache }),
    ),
  );
  const kept = files.map(({ settings: { agent, engines } }) => unwantedKept(agent, plannedEngines(engines)));
  const ending = kept.flatMap(({ stale }) => stale);
  // What the agent ends before it starts anything is in nobody's way.
  const isEnding = (pid: number | undefined): boolean =>
    pid !== undefined && ending.some((each) => belongsTo(each, pid));
  const cleared = states.map((state) => ({
    ...state,
    ports: state.ports.filter(({ holder }) => !isEnding(holder?.pid)),
  }));
  const host = await readHost(launches.some(({ needs }) => needs.gpu !== undefined));
  const adopted = adoptedHere(files, host.addresses);
  const seeds = await Promise.all(adopted.map(({ port }) => seedAt(port)));
  return [
    ...files.flatMap(({ settings: { file } }, n) => keptProblems(kept[n]!, file)),
    ...hostProblems(launches, cleared, host),
    ...seedProblems(files, adopted, seeds),
  ];
}

/** What earlier agents left running and an agent of this file would not take over. */
function keptProblems({ stale, others }: SortedKept, file: string | undefined): Problem[] {
  const place = {
    severity: "warning",
    path: "agent.keep_engines",
    code: "engine-kept",
    ...(file === undefined ? {} : { file }),
  } as const;
  const ending = stale
    .filter(({ runs }) => runs)
    .map((each): Problem => {
      const problem = `${keptText(each)} runs on from an earlier agent, and this file does not have it as it runs`;
      const remedy = "`cgn agent` ends it before it starts anything; `cgn agent --end-kept` ends it now";
      return { ...place, problem, remedy };
    });
  const foreign = others.map((each): Problem => {
    const { owner, note } = each;
    const whose = owner === undefined ? `node "${note.node}"` : `the agent with pid ${owner}`;
    const remedy =
      owner === undefined
        ? `\`cgn agent --end-kept --set agent.node_id=${note.node}\` ends it`
        : "Stop that agent to have its place";
    return { ...place, problem: `${keptText(each)} is kept for ${whose}`, remedy };
  });
  return [...ending, ...foreign];
}

/** The hash seed of the process that listens on a port; undefined where another user's cannot be looked at. */
async function seedAt(port: number): Promise<string | undefined> {
  const holder = await findPortHolder(port);
  // A process of which not even the path can be read tells nothing.
  if (holder === undefined || (await variableOf(holder.pid, "PATH")) === undefined) return undefined;
  return (await variableOf(holder.pid, "PYTHONHASHSEED")) ?? "unset";
}

/** What the engine would get: the shell's variables and the plan's over them. Secrets are not read for a check. */
function environmentOf({ plan }: HostLaunch, { env }: Pick<CliContext, "env">): Record<string, string | undefined> {
  const own = Object.entries(plan.env).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  return { ...env, ...Object.fromEntries(own) };
}
