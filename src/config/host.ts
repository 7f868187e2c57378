import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { availableParallelism, homedir, hostname, networkInterfaces, totalmem, userInfo } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { EngineSlot } from "../engines/engine.ts";
import { GPU_QUERY, readGpuList } from "../process/host/read-host.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** What loading a configuration may know of the machine. Tests pass their own, so that results do not depend on it. */
export interface HostFacts {
  readonly hostname: string;
  /** Processor cores this process may use. */
  readonly cores: number;
  readonly memoryBytes: number;
  /** What is there to compute on. Used only with `[agent].platform = "auto"`, and for hints. */
  readonly platform: EngineSlot["platform"];
  /** Indices of the GPUs that engines may be given; absent: none, or not known. */
  readonly gpus?: readonly number[];
  /** First address that other hosts could reach; undefined on a machine without a network. */
  readonly address?: string;
  /** May this folder be used, or be made and then used? */
  canWrite(dir: string): boolean;
  /** The user's folder for sockets. */
  readonly runtimeDir: string;
  /** The user's folder for state. */
  readonly stateDir: string;
  /** Folder of cgn's own launchers, absolute. */
  readonly launcherDir: string;
  /** Which of the programs that decide between an engine's modes the PATH has. */
  readonly found: readonly string[];
}

/** The machine this runs on. `env` is read for the XDG folders. */
export function readHostFacts(env: Env): HostFacts {
  const address = firstAddress();
  const there = nvidiaGpus(env);
  const gpus = visibleGpus(there, env.CUDA_VISIBLE_DEVICES);
  return {
    hostname: hostname(),
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    platform: readPlatform(there.length > 0),
    ...(address === undefined ? {} : { address }),
    ...(gpus.length === 0 ? {} : { gpus }),
    canWrite,
    runtimeDir: join(absolute(env.XDG_RUNTIME_DIR) ?? `/tmp/cgn-${userInfo().uid}`, "cgn"),
    launcherDir: fileURLToPath(new URL("../../launchers", import.meta.url)),
    found: PROGRAMS.filter((name) => isOnPath(name, env.PATH ?? "")),
    stateDir: join(absolute(env.XDG_STATE_HOME) ?? join(homedir(), ".local", "state"), "cgn"),
  };
}

/** Programs whose presence decides between modes that were not written (llama.cpp). */
const PROGRAMS = ["llama-server"] as const;

function isOnPath(name: string, path: string): boolean {
  return path.split(delimiter).some((dir) => {
    try {
      accessSync(join(dir, name), constants.X_OK);
      return dir !== "";
    } catch {
      return false;
    }
  });
}

/** The XDG rules: a relative folder is as good as none. */
const absolute = (dir: string | undefined): string | undefined => (dir?.startsWith("/") ? dir : undefined);

function readPlatform(hasNvidia: boolean): EngineSlot["platform"] {
  if (hasNvidia) return "cuda";
  return process.platform === "darwin" && process.arch === "arm64" ? "metal" : "cpu";
}

/** `nvidia-smi` takes seconds when no persistence daemon keeps the driver loaded. */
const SMI_TIMEOUT_MS = 10_000;

/** What it said, by PATH: a file is loaded more than once in a process. */
const smiAnswers = new Map<string, readonly number[]>();

/**
 * Indices of NVIDIA's GPUs of this host: its device files, else what `nvidia-smi` lists (WSL has no such files), so that the
 * platform and what `cgn check --host` counts agree.
 */
export function nvidiaGpus(env: Env, devices = "/dev"): readonly number[] {
  const path = env.PATH ?? "";
  const files = listDevices(devices).flatMap((name) => /^nvidia(\d+)$/.exec(name)?.[1] ?? []);
  if (files.length > 0) return files.map(Number).sort((a, b) => a - b);
  if (!isOnPath("nvidia-smi", path)) return [];
  const known = smiAnswers.get(path) ?? askSmi(env);
  smiAnswers.set(path, known);
  return known;
}

function askSmi(env: Env): number[] {
  const { stdout } = spawnSync("nvidia-smi", GPU_QUERY, {
    encoding: "utf8",
    timeout: SMI_TIMEOUT_MS,
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return readGpuList(stdout ?? "").map(({ index }) => index);
}

/**
 * Those of the host's GPUs that whoever started cgn left to it (`CUDA_VISIBLE_DEVICES`). UUIDs in the variable tell no index: then
 * no GPU is given out.
 */
export function visibleGpus(all: readonly number[], visible: string | undefined): number[] {
  if (visible === undefined) return [...all];
  const words = visible.split(",").map((word) => word.trim());
  return words.every((word) => /^\d+$/.test(word)) ? words.map(Number).filter((gpu) => all.includes(gpu)) : [];
}

function listDevices(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

function firstAddress(): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.find((each) => !each.internal && each.family === "IPv4")?.address;
}

/** A folder that is not there yet can be written when its nearest parent can. */
function canWrite(dir: string): boolean {
  let at = dir;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  try {
    accessSync(at, constants.W_OK | constants.X_OK);
    return statSync(at).isDirectory();
  } catch {
    return false;
  }
}
