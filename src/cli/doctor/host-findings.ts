import type { HostState } from "../../process/host/host-state.ts";
import type { Diagnosis } from "./diagnosis.ts";

const GIB = 1024 ** 3;

/** A folder of cgn or of its engines, and what is free where it lies. */
export interface FolderState {
  readonly what: string;
  readonly dir: string;
  /** Undefined: it could not be asked. */
  readonly freeBytes?: number;
  readonly canWrite: boolean;
}

/** What a driver says of itself, where there is one. */
export interface DriverState {
  /** `nvidia-smi` is there. */
  readonly hasTool: boolean;
  /** `580.65.06`; undefined when it does not answer. */
  readonly version?: string;
  /** What it said instead. */
  readonly problem?: string;
}

const size = (bytes: number): string => `${(bytes / GIB).toFixed(bytes < 10 * GIB ? 1 : 0)} GiB`;

/** Memory, GPUs and disks of this host, whatever the configuration asks of them. Pure. */
export function hostFindings(host: HostState, driver: DriverState, folders: readonly FolderState[]): Diagnosis[] {
  return [...memoryFindings(host), ...gpuFindings(host, driver), ...folders.flatMap(folderFindings)];
}

function memoryFindings({ memoryBytes, availableBytes, cgroupBytes, ...host }: HostState): Diagnosis[] {
  const area = "memory";
  const found: Diagnosis[] = [];
  if (memoryBytes !== undefined && availableBytes !== undefined) {
    const isLow = availableBytes < 2 * GIB;
    const what = `${size(availableBytes)} of ${size(memoryBytes)} are free`;
    const more = {
      why: "an engine that loads its model now may be ended by the kernel",
      mend: "End what is not needed: `ps aux --sort=-rss | head`",
      code: "memory-low",
    };
    found.push({ area, level: isLow ? "warning" : "good", what, ...(isLow ? more : {}) });
  }
  if (cgroupBytes !== undefined) {
    const what = `this container or unit may use ${size(cgroupBytes)}`;
    found.push({ area, level: "note", what, why: "engines and offload caches count together" });
  }
  const { sharedMemoryBytes: shm, lockedMemoryBytes: locked, hasRdma } = host;
  if (shm !== undefined && shm < GIB) {
    found.push({
      area,
      level: host.gpuKind === "none" ? "note" : "warning",
      what: `/dev/shm has ${size(shm)}`,
      why: "ranks of one model and transfer libraries exchange data there, and end when it is full",
      mend: "Start the container with --shm-size=8g or --ipc=host, or enlarge the mount",
      fix: "sudo mount -o remount,size=8G /dev/shm",
      code: "shared-memory",
    });
  } else if (shm !== undefined) found.push({ area, level: "good", what: `/dev/shm has ${size(shm)}` });
  if (hasRdma && locked !== undefined && locked !== Number.POSITIVE_INFINITY) {
    found.push({
      area,
      level: "warning",
      what: `at most ${size(locked)} may be locked, and this host has RDMA devices`,
      why: "NIXL and UCX lock KV memory for the network card, and fall back to slow copies or fail",
      mend: "Set LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1 for the container",
      fix: "sudo prlimit --pid $$ --memlock=unlimited:unlimited",
      code: "locked-memory",
    });
  }
  return found;
}

function gpuFindings({ gpuKind, gpus }: HostState, driver: DriverState): Diagnosis[] {
  const area = "GPUs";
  if (gpus.length > 0) {
    const version = driver.version === undefined ? "" : `, driver ${driver.version}`;
    return gpus.map(({ index, name, totalBytes, usedBytes }): Diagnosis => {
      const isFull = usedBytes > totalBytes * 0.9;
      const what = `GPU ${index}: ${name}, ${size(totalBytes - usedBytes)} of ${size(totalBytes)} free${version}`;
      const more = { why: "an engine that starts there has no room", mend: "See who holds it: `nvidia-smi`" };
      return { area, level: isFull ? "note" : "good", what, ...(isFull ? more : {}) };
    });
  }
  if (driver.hasTool) {
    return [
      {
        area,
        level: "error",
        what: `nvidia-smi is here and lists no GPU${driver.problem === undefined ? "" : `: ${driver.problem}`}`,
        why: "engines for CUDA end at their start",
        mend: "Load the driver (after a kernel update: reboot), or give the container its GPUs (--gpus all)",
        code: "gpu-missing",
      },
    ];
  }
  if (gpuKind === "other") {
    return [
      { area, level: "note", what: "there is a GPU that cannot be listed (not NVIDIA's, or no nvidia-smi here)" },
    ];
  }
  const what = "none is seen: engines compute on the processor, or run elsewhere";
  return [{ area, level: "note", what }];
}

/** Less than this is too little for logs, the index's snapshot or a small model. */
const LOW_DISK = 5 * GIB;

function folderFindings({ what, dir, freeBytes, canWrite }: FolderState): Diagnosis[] {
  const area = "disks";
  if (!canWrite) {
    return [
      {
        area,
        level: "warning",
        what: `${what} cannot be written: ${dir}`,
        mend: "Give this user the rights, or name another folder",
        code: "disk-unwritable",
      },
    ];
  }
  if (freeBytes === undefined) return [];
  const said = `${what} (${dir}): ${size(freeBytes)} free`;
  if (freeBytes >= LOW_DISK) return [{ area, level: "good", what: said }];
  const why = "when the disk is full engines end, and the index cannot be kept";
  return [
    {
      area,
      level: "warning",
      what: said,
      why,
      mend: "Free some, or name a folder on another disk",
      code: "disk-space",
    },
  ];
}
