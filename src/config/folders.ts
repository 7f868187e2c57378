import type { HostFacts } from "./host.ts";

/** Where the original kept things; used when they can be written. */
const SYSTEM = { runtime: "/run/cognitora", state: "/var/lib/cognitora" } as const;

/**
 * A path below a system folder, or below the user's own folder of that sort where the system's cannot be written. Paths
 * that were written in the configuration never come here: one that fails is an error of the daemon (exit 8).
 */
export function defaultPath(host: HostFacts, sort: keyof typeof SYSTEM, name?: string): string {
  const dir = host.canWrite(SYSTEM[sort]) ? SYSTEM[sort] : sort === "runtime" ? host.runtimeDir : host.stateDir;
  return name === undefined ? dir : `${dir}/${name}`;
}
