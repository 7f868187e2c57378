import type { HostNeeds } from "../../core/host-needs.ts";
import type { HostState, LaunchState, PackageState } from "../host/host-state.ts";

const GIB = 1024 ** 3;

/** A host that lacks nothing: two GPUs of 80 GiB, 512 GiB of memory, InfiniBand. No test looks at the machine it runs on. */
export const GOOD_HOST: HostState = {
  gpuKind: "nvidia",
  gpus: [0, 1].map((index) => ({ index, name: "NVIDIA H100 80GB HBM3", totalBytes: 80 * GIB, usedBytes: 0 })),
  memoryBytes: 512 * GIB,
  availableBytes: 480 * GIB,
  sharedMemoryBytes: 256 * GIB,
  lockedMemoryBytes: Number.POSITIVE_INFINITY,
  hasRdma: true,
  addresses: ["127.0.0.1", "10.0.0.5"],
};

/** What is found for a launch where nothing is missing: newest versions of all packages, a whole model, room on all disks. */
export function goodLaunch(needs: HostNeeds): LaunchState {
  const packages = [...(needs.own === undefined ? [] : [needs.own]), ...needs.packages];
  return {
    program: { path: `/venv/bin/${needs.program}`, ...(packages.length === 0 ? {} : { python: "/venv/bin/python3" }) },
    packages: Object.fromEntries(
      packages.map(({ name }): [string, PackageState] => [name, { version: GOOD_VERSIONS[name] ?? "99" }]),
    ),
    model: {
      at: "/models/m",
      isFolder: needs.model?.layout !== "gguf",
      hasConfig: true,
      weightBytes: 16 * GIB,
      broken: [],
    },
    ports: [],
    missingPrograms: [],
    disks: needs.disks.map(({ dir }) => ({ dir, freeBytes: 4_000 * GIB })),
    missingFiles: [],
    variables: {},
    missingFileVariables: [],
  };
}

const GOOD_VERSIONS: Readonly<Record<string, string>> = {
  vllm: "0.33.0",
  sglang: "0.5.23",
  lmcache: "0.5.6",
  nixl: "1.5.1",
  kvbm: "1.6.1",
  "mlx-lm": "0.32.2",
  xllamacpp: "2026.10.11549",
  "llama-cpp-python": "0.3.36",
};
