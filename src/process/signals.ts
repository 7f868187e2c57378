import { readdirSync, readFileSync } from "node:fs";
import { isShortage } from "./shortage.ts";

/** Send a signal to a process, or to a group (negative). A process that is gone already is no error. */
export function signalProcess(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/** Is there a process with this pid, or any in this group (negative)? Zombies count. */
export function isThere(target: number): boolean {
  try {
    process.kill(target, 0);
    return true;
  } catch (error) {
    return !isGone(error);
  }
}

/** ESRCH: none there. EPERM: there, but another user's; macOS also says it for a group of zombies. */
function isGone(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ESRCH" || (code === "EPERM" && process.platform === "darwin");
}

const GROUP_END_MS = 2_000;
const POLL_MS = 10;
/** From here on a look into /proc tells zombies from the living: a container's pid 1 may reap late, or never. */
const ZOMBIES_AFTER_MS = 50;

/** SIGKILL what is left of a group and wait until none of it runs, two seconds at most. */
export async function endGroup(pgid: number): Promise<void> {
  for (let waited = 0; isThere(-pgid) && waited < GROUP_END_MS; waited += POLL_MS) {
    signalProcess(-pgid, "SIGKILL");
    if (waited >= ZOMBIES_AFTER_MS && waited % ZOMBIES_AFTER_MS === 0 && hasOnlyZombies(pgid)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The variable by which processes of a run are known, whatever group or session they have. */
export const RUN_VARIABLE = "CGN_RUN";

/** How often is looked for children of children: each look finds those that were there at its beginning. */
const MARK_LOOKS = 5;

/**
 * Linux: SIGKILL every process that has a run's mark in its environment (as it was when it started): children with a session of their
 * own are in no group of ours. Elsewhere nothing is done.
 */
export async function endMarked(run: string): Promise<void> {
  for (let looks = 0; looks < MARK_LOOKS; looks++) {
    const found = markedPids(run);
    for (const pid of found) signalProcess(pid, "SIGKILL");
    if (found.length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function markedPids(run: string): number[] {
  const mark = `${RUN_VARIABLE}=${run}\0`;
  return listProcesses().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark) && processStat(pid)?.state !== "Z";
    } catch {
      // Gone, or another user's.
      return false;
    }
  });
}

function listProcesses(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** Linux: does no member of the group run any more? False where it cannot be told. */
function hasOnlyZombies(pgid: number): boolean {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .every((name) => {
        const { state, group } = processStat(Number(name)) ?? { state: "Z", group: -1 };
        return group !== pgid || state === "Z" || state === "X";
      });
  } catch {
    return false;
  }
}

/**
 * Linux: state letter, process group and start time (clock ticks since boot) of a process; undefined when it is gone.
 * @throws Error (errno) when it cannot be looked at for want of a file descriptor: that it is gone must not follow from it
 */
export function processStat(pid: number): { state: string; group: number; startTicks: string } | undefined {
  try {
    // After the command name, which may hold spaces and brackets, the fields of proc(5) from the third on.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return { state: fields[0] ?? "", group: Number(fields[2]), startTicks: fields[19] ?? "" };
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
}
