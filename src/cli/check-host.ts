import { type HostLaunch, hostLaunches, hostProblems } from "../config/checks/host-problems.ts";
import type { LoadedConfig } from "../config/load.ts";
import type { Problem } from "../core/errors.ts";
import { findInHubCache } from "../modelfiles/hub-cache.ts";
import { readHost } from "../process/host/read-host.ts";
import { readLaunch } from "../process/host/read-launch.ts";
import type { CliContext } from "./command.ts";

/** Look at this host for the engines that these files would start here, and say what keeps them from working. Starts nothing. */
export async function checkHost(files: readonly LoadedConfig[], cli: Pick<CliContext, "env">): Promise<Problem[]> {
  const launches = hostLaunches(files);
  const states = await Promise.all(
    launches.map((launch) =>
      readLaunch(launch.needs, launch.plan, { env: environmentOf(launch, cli), findInHub: findInHubCache }),
    ),
  );
  return hostProblems(launches, states, await readHost(launches.some(({ needs }) => needs.gpu !== undefined)));
}

/** What the engine would get: the shell's variables and the plan's over them. Secrets are not read for a check. */
function environmentOf({ plan }: HostLaunch, { env }: Pick<CliContext, "env">): Record<string, string | undefined> {
  const own = Object.entries(plan.env).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  return { ...env, ...Object.fromEntries(own) };
}
