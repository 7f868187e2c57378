import type { Problem } from "../../core/errors.ts";
import type { LoadedConfig } from "../load.ts";
import { enginePeering, planEngine } from "../plan.ts";
import type { EngineSettings } from "../settings.ts";
import { type PairEngine, pairFindings } from "./pairs.ts";
import { placedFinding } from "./placed-finding.ts";

/**
 * What does not agree between the prefill and decode engines of these files, each at its place.
 * @param files without errors of their own
 */
export function pairProblems(files: readonly LoadedConfig[]): Problem[] {
  // Two files that name no node have this machine's name twice.
  const isShared = (node: string): boolean =>
    files.filter(({ settings }) => settings.engines.some(({ nodeId }) => nodeId === node)).length > 1;
  const all = files.flatMap((loaded, file) =>
    loaded.settings.engines.flatMap((settings) => {
      const engine = pairEngine(settings, file, loaded, isShared(settings.nodeId));
      return engine === undefined ? [] : [{ engine, settings, loaded }];
    }),
  );
  const findings = pairFindings(
    all.map(({ engine }) => engine),
    files.length,
  );
  return findings.map(({ engine, finding }) => {
    const { loaded, settings } = all[engine]!;
    const name = loaded.settings.engines.length > 1 ? settings.nodeId : undefined;
    return placedFinding(loaded.ctx, settings.path, finding, name);
  });
}

function pairEngine(
  settings: EngineSettings,
  file: number,
  { settings: all }: LoadedConfig,
  isShared: boolean,
): PairEngine | undefined {
  const { role, group } = settings;
  if (role === "both" || !settings.spawn) return undefined;
  const peering = enginePeering(settings, planEngine(settings));
  if (peering === undefined) return undefined;
  const { stateBackend } = all.cluster;
  const place = isShared && all.file !== undefined ? ` of ${all.file.split(/[\\/]/).at(-1)}` : "";
  return {
    name: `${settings.nodeId}${place}`,
    role,
    model: settings.model.name,
    ...(group === undefined ? {} : { group }),
    peering,
    file,
    spansHosts: stateBackend === "etcd" || stateBackend === "static",
  };
}
