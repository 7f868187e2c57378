import type { HostFacts } from "./host.ts";

/** A machine that no test runs on: what a configuration gives there is the same everywhere. */
export const SAMPLE_HOST: HostFacts = {
  hostname: "node1",
  cores: 16,
  memoryBytes: 256 * 1024 ** 3,
  platform: "cuda",
  address: "10.0.0.5",
  canWrite: () => true,
  runtimeDir: "/run/user/1000/cgn",
  stateDir: "/home/user/.local/state/cgn",
  launcherDir: "/opt/cgn/launchers",
  found: [],
};
