import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile, statfs } from "node:fs/promises";
import { freemem, networkInterfaces, totalmem } from "node:os";
import type { GpuState, HostState } from "./host-state.ts";

/** `nvidia-smi` takes seconds when no persistence daemon keeps the driver loaded. */
const TIMEOUT_MS = 10_000;

/** How long a look at GPUs and memory counts: engines of one file are checked one after another. */
const FRESH_MS = 5_000;

const kept = new Map<boolean, { readonly atMs: number; readonly state: Promise<HostState> }>();

/**
 * Look at this host; a look of the last seconds is used again.
 * @param wantsGpus ask for GPUs; without, `gpuKind` is "other" and the list empty
 */
export function readHost(wantsGpus: boolean): Promise<HostState> {
  const nowMs = performance.now();
  const last = kept.get(wantsGpus);
  if (last !== undefined && nowMs - last.atMs <= FRESH_MS) return last.state;
  const state = lookAtHost(wantsGpus);
  kept.set(wantsGpus, { atMs: nowMs, state });
  return state;
}

async function lookAtHost(wantsGpus: boolean): Promise<HostState> {
  const [gpu, memory, cgroupBytes, shared, limits, hasRdma] = await Promise.all([
    wantsGpus ? readGpus() : ({ gpuKind: "other", gpus: [] } as const),
    readMemory(),
    readCgroupLimit(),
    statfs("/dev/shm").catch(() => undefined),
    readText("/proc/self/limits"),
    readdir("/sys/class/infiniband").then(
      (names) => names.length > 0,
      () => false,
    ),
  ]);
  const locked = lockedMemoryIn(limits);
  const limit = cgroupBytes !== undefined && cgroupBytes < (memory.memoryBytes ?? Number.POSITIVE_INFINITY);
  return {
    ...gpu,
    ...memory,
    ...(limit ? { cgroupBytes } : {}),
    ...(shared === undefined ? {} : { sharedMemoryBytes: shared.bsize * shared.blocks }),
    ...(locked === undefined ? {} : { lockedMemoryBytes: locked }),
    hasRdma,
    addresses: Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((each) => each.address)),
  };
}

const readText = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

async function readMemory(): Promise<Pick<HostState, "memoryBytes" | "availableBytes">> {
  const text = await readText("/proc/meminfo");
  const kib = (name: string): number | undefined => {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text);
    return found === null ? undefined : Number(found[1]) * 1024;
  };
  return { memoryBytes: kib("MemTotal") ?? totalmem(), availableBytes: kib("MemAvailable") ?? freemem() };
}

/** The hard limit in bytes out of /proc/self/limits: the one up to which an engine may raise its own. */
export function lockedMemoryIn(limits: string): number | undefined {
  const found = /^Max locked memory\s+(\S+)\s+(\S+)/m.exec(limits);
  if (found === null) return undefined;
  return found[2] === "unlimited" ? Number.POSITIVE_INFINITY : Number(found[2]);
}

/** The least `memory.max` (or v1 `limit_in_bytes`) on the way from this process's cgroup to the root. */
async function readCgroupLimit(): Promise<number | undefined> {
  const lines = (await readText("/proc/self/cgroup")).split("\n");
  const v2 = lines.find((line) => line.startsWith("0::"))?.slice(3);
  const v1 = lines.find((line) => /^\d+:[^:]*\bmemory\b/.test(line))?.replace(/^\d+:[^:]*:/, "");
  const files = [
    ...(v2 === undefined ? [] : upwards(v2).map((path) => `/sys/fs/cgroup${path}/memory.max`)),
    ...(v1 === undefined ? [] : upwards(v1).map((path) => `/sys/fs/cgroup/memory${path}/memory.limit_in_bytes`)),
  ];
  const limits = (await Promise.all(files.map(readText))).map(Number).filter((bytes) => bytes > 0);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** `/a/b` → `/a/b`, `/a`, "" : a container sees its own group at the root. */
function upwards(path: string): string[] {
  const parts = path.split("/").filter((part) => part !== "");
  return [...parts.map((_, i) => `/${parts.slice(0, parts.length - i).join("/")}`), ""];
}

/** What `nvidia-smi` is asked; `readGpuList()` reads its answer. */
export const GPU_QUERY = ["--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits"];

async function readGpus(): Promise<Pick<HostState, "gpuKind" | "gpus">> {
  const csv = await run("nvidia-smi", GPU_QUERY);
  const gpus = csv === undefined ? [] : readGpuList(csv);
  if (gpus.length > 0) return { gpuKind: "nvidia", gpus };
  // ROCm, Ascend, Gaudi, TPU and Intel devices, Apple's, and NVIDIA's in a container without nvidia-smi: there, not listed.
  const devices = [
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/dxg",
    "/dev/kfd",
    "/dev/davinci0",
    "/dev/accel",
    "/dev/accel0",
    "/dev/vfio/0",
    "/dev/dri/renderD128",
  ];
  const others = process.platform === "darwin" || devices.some((path) => existsSync(path));
  return { gpuKind: others ? "other" : "none", gpus };
}

/** The lines that `nvidia-smi --query-gpu=index,name,memory.total,memory.used --format=csv,noheader,nounits` prints, in MiB. */
export function readGpuList(csv: string): GpuState[] {
  return csv.split("\n").flatMap((line) => {
    const cells = line.split(",").map((cell) => cell.trim());
    const [index = "", name = "", total = "", used = ""] = cells;
    if (!/^\d+$/.test(index) || cells.length < 4) return [];
    const bytes = (mib: string): number => (Number(mib) > 0 ? Number(mib) * 1024 ** 2 : 0);
    return [{ index: Number(index), name, totalBytes: bytes(total), usedBytes: bytes(used) }];
  });
}

function run(command: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, [...args], { timeout: TIMEOUT_MS, killSignal: "SIGKILL" }, (error, stdout) =>
      resolve(error === null ? stdout : undefined),
    );
  });
}
