import type { PackageNeed } from "../../core/host-needs.ts";
import type { PackageState } from "./host-state.ts";

/** The version of a needed distribution, or of one that stands for it. Undefined: it is not there, or tells none. */
export function versionOf(
  need: PackageNeed,
  packages: Readonly<Record<string, PackageState>> | undefined,
): string | undefined {
  return [need.name, ...(need.alternatives ?? [])]
    .map((name) => packages?.[name]?.version)
    .find((v) => v !== undefined);
}

/** Is it there in any form? */
export function isThere(need: PackageNeed, packages: Readonly<Record<string, PackageState>>): boolean {
  return [need.name, ...(need.alternatives ?? [])].some((name) => packages[name] !== undefined);
}
