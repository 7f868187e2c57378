import type { Problem } from "../../core/errors.ts";
import { isLoopbackHost } from "../../engines/address.ts";
import type { LoadedConfig } from "../load.ts";
import { enginePeering, planEngine } from "../plan.ts";
import type { EngineSettings } from "../settings.ts";
import { placedFinding } from "./placed-finding.ts";

/** An engine of this host that somebody else started, by the port of its URL. */
export interface AdoptedEngine {
  readonly loaded: LoadedConfig;
  readonly settings: EngineSettings;
  readonly port: number;
}

/** Adopted prefill and decode engines that are on this host, so that their environment can be looked at. */
export function adoptedHere(files: readonly LoadedConfig[], addresses: readonly string[]): AdoptedEngine[] {
  return files.flatMap((loaded) =>
    loaded.settings.engines.flatMap((settings): AdoptedEngine[] => {
      if (settings.spawn || settings.role === "both") return [];
      const { hostname, port } = new URL(settings.url);
      const isHere = isLoopbackHost(hostname) || addresses.includes(hostname);
      return isHere && port !== "" ? [{ loaded, settings, port: Number(port) }] : [];
    }),
  );
}

/**
 * Adopted engines whose blocks have other names than those of the engines that cgn starts for the same model. Pure.
 * @param seeds what each was started with, in their order: `unset`, or undefined where it cannot be told
 */
export function seedProblems(
  files: readonly LoadedConfig[],
  adopted: readonly AdoptedEngine[],
  seeds: readonly (string | undefined)[],
): Problem[] {
  const own = files.flatMap(({ settings }) =>
    settings.engines.flatMap((engine) => {
      const seed = engine.spawn ? enginePeering(engine, planEngine(engine))?.hashSeed : undefined;
      return seed === undefined ? [] : [{ engine, seed }];
    }),
  );
  return adopted.flatMap(({ loaded, settings }, n): Problem[] => {
    const seed = seeds[n];
    const other = own.find(
      ({ engine }) =>
        engine.kind === settings.kind && engine.model.name === settings.model.name && engine.group === settings.group,
    );
    if (seed === undefined || other === undefined || other.seed === seed) return [];
    const what = `the engine at ${settings.url} runs with PYTHONHASHSEED ${seed}, and ${other.engine.nodeId} with ${other.seed}`;
    const finding = {
      code: "hash-seed",
      severity: "error",
      what,
      remedy: `Start it with PYTHONHASHSEED=${other.seed} in its environment`,
      keys: ["engine.url", "engine"],
    } as const;
    return [placedFinding(loaded.ctx, settings.path, finding, settings.nodeId)];
  });
}
