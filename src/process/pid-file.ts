import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isShortage } from "./shortage.ts";
import { endGroup, endMarked, isThere, processStat, signalProcess } from "./signals.ts";
import type { Exit, ProcessHandle } from "./spawn.ts";

/** What is remembered of a process that may outlive its agent (`keep_engines`). */
export interface KeptProcess {
  readonly pid: number;
  /** When the kernel started it, as the kernel says it, and in which boot: tells a reused pid from the process. */
  readonly startTime: string;
  /** Of command and environment: another one means that the configuration changed. */
  readonly fingerprint: string;
  readonly epoch: number;
  /** What its children have in their environment (`signals.ts`); absent in files of older versions. */
  readonly run?: string;
  /** What whoever wants to end it needs to know; absent in files of older versions. */
  readonly as?: KeptNote;
  /** The agent that has it in its care: absent once that let go of it. */
  readonly owner?: { readonly pid: number; readonly startTime: string };
}

/** What an agent that does not know a kept process needs to end it as its own would. */
export interface KeptNote {
  /** The agent's `node_id`. */
  readonly node: string;
  /** Of the engine or sidecar, as in logs. */
  readonly name: string;
  /** The engine's kind and address; absent for sidecars, which end after engines. */
  readonly kind?: string;
  readonly url?: string;
  /** GPUs that it was given; absent: all that there are. */
  readonly gpus?: readonly number[];
  /** How long its requests may end before SIGTERM, and how long it has after it, in milliseconds. */
  readonly drainMs: number;
  readonly graceMs: number;
}

/** Written by rename, so that a reader never sees half of it. */
export function writePidFile(path: string, kept: KeptProcess): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(kept)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** The process of a pid file; `runs` false: it ended when nobody watched it, and the file is removed. */
export interface FoundProcess {
  readonly kept: KeptProcess;
  readonly runs: boolean;
}

/**
 * Is that very process still there? Undefined when the file is none.
 * @throws Error (errno) when that cannot be looked at for want of a file descriptor
 */
export function readPidFile(path: string): FoundProcess | undefined {
  const found = peekPidFile(path);
  if (found?.runs !== true) rmSync(path, { force: true });
  return found;
}

/** The same, and the file stays. @throws Error (errno) when that cannot be looked at for want of a file descriptor */
export function peekPidFile(path: string): FoundProcess | undefined {
  try {
    const kept = JSON.parse(readFileSync(path, "utf8")) as KeptProcess;
    const known = Number.isInteger(kept.pid) && kept.pid > 1;
    return { kept, runs: known && processStartTime(kept.pid) === kept.startTime };
  } catch (error) {
    if (isShortage(error)) throw error;
    // No file, or not ours: the same as none.
    return undefined;
  }
}

/** Have it in this process's care from now on. */
export function claimPidFile(path: string, kept: KeptProcess): void {
  const { pid } = process;
  const startTime = startTimeOf(pid);
  writePidFile(path, { ...kept, ...(startTime === undefined ? {} : { owner: { pid, startTime } }) });
}

/** Let go of it: whoever comes next may take it over, or end it. */
export function disclaimPidFile(path: string, pid: number): void {
  const found = peekPidFile(path);
  if (found?.kept.pid !== pid) return;
  const { owner: _, ...kept } = found.kept;
  writePidFile(path, kept);
}

/** The pid of another agent that runs and has it in its care. */
export function otherOwner({ owner }: KeptProcess): number | undefined {
  if (owner === undefined || owner.pid === process.pid) return undefined;
  return startTimeOf(owner.pid) === owner.startTime ? owner.pid : undefined;
}

/** End what a process left behind that ended when nobody watched it. */
export async function endLeftovers({ run }: KeptProcess): Promise<void> {
  if (typeof run === "string" && run !== "") await endMarked(run);
}

/** Hash of a command and of what its plan puts into its environment (of a secret only where it comes from). */
export function launchFingerprint(argv: readonly string[], env: Readonly<Record<string, unknown>>): string {
  const sorted = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([argv, sorted]))
    .digest("hex");
}

/**
 * The kernel's start time of a process; undefined when there is none, or only a zombie.
 * @throws Error (errno) when it cannot be looked at for want of a file descriptor
 */
export function processStartTime(pid: number): string | undefined {
  // A member of another's group is not one that we started.
  return startTimeOf(pid, true);
}

function startTimeOf(pid: number, isLeader = false): string | undefined {
  try {
    if (process.platform === "linux") {
      const stat = processStat(pid);
      if (stat === undefined || stat.state === "Z" || (isLeader && stat.group !== pid)) return undefined;
      return `${bootId()} ${stat.startTicks}`;
    }
    const said = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
    return said === "" || said.startsWith("Z") ? undefined : said.replace(/^\S+\s+/, "");
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
}

/** Linux: start times count from the boot, and a pid with the same one may come again after it. */
function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch (error) {
    if (isShortage(error)) throw error;
    return "";
  }
}

/** Is it that process? One that cannot be looked at now is taken for running. */
function stillRuns({ pid, startTime }: KeptProcess): boolean {
  try {
    return processStartTime(pid) === startTime;
  } catch {
    return true;
  }
}

/** How often a process that is not our child is looked at. */
const WATCH_MS = 300;

/** A handle on a process that another agent started. Its exit status cannot be known. */
export function adoptProcess(kept: KeptProcess): ProcessHandle {
  let released = false;
  const exited = (async (): Promise<Exit> => {
    while (!released && stillRuns(kept)) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    }
    if (released) return new Promise(() => {});
    await endGroup(kept.pid);
    if (kept.run !== undefined) await endMarked(kept.run);
    return {};
  })();
  return {
    pid: kept.pid,
    exited,
    terminate: () => signalProcess(kept.pid, "SIGTERM"),
    kill: () => signalProcess(-kept.pid, "SIGKILL"),
    release: () => {
      released = true;
    },
  };
}

/** End a kept process whose configuration is no longer the wanted one: SIGTERM, a grace, SIGKILL to its group. */
export async function endKept(kept: KeptProcess, graceMs: number): Promise<void> {
  if (stillRuns(kept)) signalProcess(kept.pid, "SIGTERM");
  for (let waited = 0; waited < graceMs && isThere(kept.pid); waited += 100) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (!stillRuns(kept)) break;
  }
  await endGroup(kept.pid);
  if (kept.run !== undefined) await endMarked(kept.run);
}
