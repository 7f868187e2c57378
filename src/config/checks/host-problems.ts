import type { Problem } from "../../core/errors.ts";
import type { Finding } from "../../core/findings.ts";
import type { HostNeeds } from "../../core/host-needs.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { isLoopbackHost } from "../../engines/address.ts";
import { type CheckedLaunch, launchFindings } from "../../process/host/findings.ts";
import type { HostState, LaunchState } from "../../process/host/host-state.ts";
import { sharedFindings } from "../../process/host/shared-findings.ts";
import type { LoadedConfig } from "../load.ts";
import { engineNeeds, enginePeering, planEngine } from "../plan.ts";
import { portClashes } from "../plan-ports.ts";
import type { EngineSettings } from "../settings.ts";
import { placedFinding } from "./placed-finding.ts";

/** One engine of a file that would be started on this host. */
export interface HostLaunch {
  readonly loaded: LoadedConfig;
  readonly settings: EngineSettings;
  readonly plan: LaunchPlan;
  readonly needs: HostNeeds;
}

/** The launches of these files, in their order. */
export function hostLaunches(files: readonly LoadedConfig[]): HostLaunch[] {
  return files.flatMap((loaded) =>
    loaded.settings.engines.flatMap((settings) => {
      if (!settings.spawn) return [];
      const plan = planEngine(settings);
      const needs = engineNeeds(settings, plan);
      return needs === undefined ? [] : [{ loaded, settings, plan, needs }];
    }),
  );
}

/**
 * What keeps these launches from working on a host, each finding at the key that is to blame. Pure.
 * @param states what was found for each launch, in their order
 */
export function hostProblems(
  launches: readonly HostLaunch[],
  states: readonly LaunchState[],
  host: HostState,
): Problem[] {
  const checked = launches.map(
    ({ settings, needs }, n): CheckedLaunch => ({ name: settings.nodeId, needs, state: states[n]! }),
  );
  const own = checked.flatMap((launch, n) => launchFindings(launch, host).map((finding) => ({ launch: n, finding })));
  const all = [...own, ...sharedFindings(checked, host), ...addressFindings(launches, host), ...clashes(launches)];
  return merged(all, launches).map(({ launch, finding, names }) => {
    const { loaded, settings } = launches[launch]!;
    const name = launches.length > 1 ? names.join(", ") : undefined;
    return placedFinding(loaded.ctx, settings.path, finding, name);
  });
}

/** What several engines of one file lack for the same cause is told once, at the first of them. */
function merged(all: readonly Found[], launches: readonly HostLaunch[]): (Found & { readonly names: string[] })[] {
  const groups = new Map<string, Found & { readonly names: string[] }>();
  const files = [...new Set(launches.map(({ loaded }) => loaded))];
  for (const each of all) {
    const { loaded, settings } = launches[each.launch]!;
    const { code, severity, what, remedy, fix } = each.finding;
    const key = JSON.stringify([files.indexOf(loaded), code, severity, what, remedy, fix]);
    const group = groups.get(key) ?? { ...each, names: [] };
    if (!group.names.includes(settings.nodeId)) group.names.push(settings.nodeId);
    groups.set(key, group);
  }
  return [...groups.values()];
}

type Found = { readonly launch: number; readonly finding: Finding };

/** An address that an engine binds must be this host's own; names are left to the resolver. */
function addressFindings(launches: readonly HostLaunch[], host: HostState): Found[] {
  return launches.flatMap(({ settings, plan }, launch): Found[] => {
    const peering = enginePeering(settings, plan);
    if (peering === undefined || !peering.bindsAddress || isLoopbackHost(peering.address)) return [];
    const isIp = /^\d+\.\d+\.\d+\.\d+$|:/.test(peering.address);
    if (!isIp || host.addresses.includes(peering.address)) return [];
    return [
      {
        launch,
        finding: {
          code: "peer-address",
          severity: "error",
          what: `${peering.address} is no address of this host, so the engine cannot listen there for its peers`,
          remedy: `Set [agent].peer_address to one of ${host.addresses.filter((each) => !isLoopbackHost(each)).join(", ") || "this host's"}`,
          keys: ["agent.peer_address", "agent.listen", "engine.url"],
        },
      },
    ];
  });
}

/** Ports and GPUs that engines of different files both take; within a file loading tells it. */
function clashes(launches: readonly HostLaunch[]): Found[] {
  // Two engines at one HTTP port meet at their side ports too: the first clash of two launches tells enough.
  const ports = portClashes(launches.map(({ plan }) => plan))
    .filter(({ first, second }) => areApart(launches, first.index, second.index))
    .filter(({ second }, n, all) => all.findIndex((each) => each.second.index === second.index) === n)
    .map(({ port, first, second }): Found => {
      const other = launches[first.index]!.settings.nodeId;
      const what = `port ${port} (${second.name}) is also a port of ${other} (${first.name}) in another file`;
      const keys = second.name === "http" ? ["engine.url", "engine"] : ["agent.side_port_base", "engine"];
      const remedy = "Choose another port in one of the files";
      return { launch: second.index, finding: { code: "port-in-use", severity: "error", what, remedy, keys } };
    });
  return [...ports, ...sharedGpus(launches)];
}

function sharedGpus(launches: readonly HostLaunch[]): Found[] {
  return launches.flatMap(({ settings }, n): Found[] => {
    const other = launches.findIndex(
      (each, i) =>
        i < n && areApart(launches, i, n) && each.settings.slot.gpus?.some((gpu) => settings.slot.gpus?.includes(gpu)),
    );
    if (other < 0) return [];
    const both = settings.slot.gpus?.filter((gpu) => launches[other]!.settings.slot.gpus?.includes(gpu)) ?? [];
    const what = `GPU ${both.join(", ")} is also given to ${launches[other]!.settings.nodeId} in another file`;
    const keys = ["engine.gpus", "engine.gpu_index", "agent.gpu_index", "engine"];
    const remedy = "Give each engine GPUs of its own";
    return [{ launch: n, finding: { code: "gpu-shared", severity: "warning", what, remedy, keys } }];
  });
}

const areApart = (launches: readonly HostLaunch[], a: number, b: number): boolean =>
  launches[a]!.loaded !== launches[b]!.loaded;
