import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { availableParallelism, homedir, hostname, networkInterfaces, totalmem, userInfo } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { EngineSlot } from "../engines/engine.ts";

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
export function readHostFacts(env: Readonly<Record<string, string | undefined>>): HostFacts {
  const address = firstAddress();
  const gpus = readGpus(env.CUDA_VISIBLE_DEVICES);
  return {
    hostname: hostname(),
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    platform: readPlatform(),
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

function readPlatform(): EngineSlot["platform"] {
  if (existsSync("/dev/nvidia0")) return "cuda";
  return process.platform === "darwin" && process.arch === "arm64" ? "metal" : "cpu";
}

/**
 * NVIDIA's GPUs of this host, or those of them that whoever started cgn left to it. UUIDs in the variable tell no index: then no GPU
 * is given out.
 */
export function readGpus(visible: string | undefined, devices = "/dev"): number[] {
  const there = listDevices(devices).flatMap((name) => /^nvidia(\d+)$/.exec(name)?.[1] ?? []);
  const all = there.map(Number).sort((a, b) => a - b);
  if (visible === undefined) return all;
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
