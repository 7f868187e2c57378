import type { PortHolder } from "../port-holder.ts";

/** One NVIDIA GPU as `nvidia-smi` tells it. */
export interface GpuState {
  readonly index: number;
  readonly name: string;
  readonly totalBytes: number;
  readonly usedBytes: number;
}

/** What a host has: looked at once for all its engines. Fields are absent where it could not be told. */
export interface HostState {
  /** `nvidia`: listed. `other`: GPUs of another maker, or no way to list them. `none`: no device of any kind is seen. */
  readonly gpuKind: "nvidia" | "other" | "none";
  readonly gpus: readonly GpuState[];
  readonly memoryBytes?: number;
  readonly availableBytes?: number;
  /** The memory limit of the cgroup that engines run in, when it is below `memoryBytes`. */
  readonly cgroupBytes?: number;
  /** Size of /dev/shm. */
  readonly sharedMemoryBytes?: number;
  /** Hard limit on locked memory; Infinity for "unlimited". */
  readonly lockedMemoryBytes?: number;
  /** Are there InfiniBand or RoCE devices, which only take locked memory? */
  readonly hasRdma: boolean;
  /** Addresses of this host's interfaces. */
  readonly addresses: readonly string[];
}

/** What was found of a program. */
export interface ProgramState {
  /** Absolute path; undefined: not found. */
  readonly path?: string;
  /** It was found there and cannot be run: no execute permission, a folder. */
  readonly unrunnable?: string;
  /** Does what cannot be run begin as programs and scripts do? */
  readonly looksRunnable?: boolean;
  /** The Python that runs it; undefined: it is no Python program, or nobody can tell. */
  readonly python?: string;
  /** The interpreter that its first line names is not there. */
  readonly pythonMissing?: string;
}

/** A distribution in the program's own Python. */
export interface PackageState {
  /** Undefined: the module is there, without metadata. */
  readonly version?: string;
}

/** What lies where the model should. */
export interface ModelState {
  /** Where it was found: the path, or the hub cache's folder. */
  readonly at?: string;
  readonly isFolder?: boolean;
  readonly hasConfig?: boolean;
  /** Of weights, links followed. */
  readonly weightBytes?: number;
  /** Weight files that are Git LFS pointers, or parts of a download that did not end. */
  readonly broken?: readonly string[];
  /** Files that the weights' index names and that are not there. */
  readonly missing?: readonly string[];
  /** It was found in the hub's cache: what is missing there is downloaded, unless the hub is off. */
  readonly inHub?: boolean;
  /** This user may not read it. */
  readonly unreadable?: string;
  /** Is a name on the hub's own, with no file in the cache, to be downloaded at the start? */
  readonly hubOffline?: boolean;
  /** Free bytes where a download would go. */
  readonly hubFreeBytes?: number;
}

export interface PortState {
  readonly name: string;
  readonly port: number;
  readonly holder?: PortHolder;
}

export interface DiskState {
  readonly dir: string;
  readonly freeBytes?: number;
  /** Why it cannot be written. */
  readonly problem?: string;
  /** Would the right to write mend that? */
  readonly wantsRights?: boolean;
}

/** What was found for one launch. */
export interface LaunchState {
  readonly program: ProgramState;
  /** By distribution name, those that are there. Undefined: its Python could not be asked. */
  readonly packages?: Readonly<Record<string, PackageState>>;
  /** What can install packages there. `ensurepip`: pip after that; `uv`: neither is there. Default pip. */
  readonly installer?: "pip" | "ensurepip" | "uv";
  readonly model?: ModelState;
  /** Those of the plan that are taken by others. */
  readonly ports: readonly PortState[];
  /** The launch runs already, as this process: its ports and its memory are its own. */
  readonly runningPid?: number;
  /** Programs of the plan's `requires` that are not there, besides the engine's own. */
  readonly missingPrograms: readonly string[];
  /** In the order of `HostNeeds.disks`. */
  readonly disks: readonly DiskState[];
  /** Files of the plan's `requires` that are not there, besides the model. */
  readonly missingFiles: readonly string[];
  /** Variables that are set in the environment of engines, of those that the needs name. */
  readonly variables: Readonly<Record<string, string>>;
  /** Variables that name a file which is not there. */
  readonly missingFileVariables: readonly string[];
}
