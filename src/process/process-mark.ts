import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { processStat } from "./signals.ts";

/** What tells a process from every other one, here and elsewhere, for files that outlive it. */
export interface ProcessMark {
  readonly pid: number;
  /** When the kernel started it, as the kernel says it, and in which boot: tells a reused pid from the process. */
  readonly startTime: string;
  /** Host and process namespace in which that pid means something. */
  readonly place: string;
}

/** `unknown`: it is of another host or container, where its pid means another process. */
export type Liveness = "runs" | "gone" | "unknown";

/** The mark of this process. */
export function ownMark(): ProcessMark {
  return { pid: process.pid, startTime: startTimeOf(process.pid) ?? "", place: placeOf() };
}

/** Does the process of a mark still run? @throws Error (errno) when that cannot be looked at for want of a file descriptor */
export function livenessOf(mark: ProcessMark): Liveness {
  if (mark.place !== placeOf()) return "unknown";
  return startTimeOf(mark.pid) === mark.startTime ? "runs" : "gone";
}

function placeOf(): string {
  try {
    return `${hostname()} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    // No Linux: there are no such namespaces.
    return hostname();
  }
}

function startTimeOf(pid: number): string | undefined {
  if (process.platform === "linux") {
    const stat = processStat(pid);
    return stat === undefined || stat.state === "Z" ? undefined : `${bootId()} ${stat.startTicks}`;
  }
  try {
    const said = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
    return said === "" || said.startsWith("Z") ? undefined : said.replace(/^\S+\s+/, "");
  } catch {
    // `ps` ends with 1 when there is no such process.
    return undefined;
  }
}

/** Start times count from the boot, and a pid with the same one may come again after it. */
function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}
