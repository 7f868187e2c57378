import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { compareVersions } from "../../core/version.ts";
import { zeroMqProblem } from "../../wire/load-zeromq.ts";
import type { Diagnosis } from "./diagnosis.ts";

const TIMEOUT_MS = 5_000;

/** What this process knows of itself. */
export interface ProcessFacts {
  /** `24.1.0` */
  readonly node: string;
  /** The range's lower end of package.json. */
  readonly leastNode: string;
  /** Why the ZeroMQ binding cannot be loaded; undefined: it can. */
  readonly zeromq?: string;
  /** Hard limit on open files; Infinity for none, undefined where it is not told. */
  readonly openFiles?: number;
  /** Milliseconds since 1970. */
  readonly wallMs: number;
  /** Is the clock kept by NTP? Undefined: nobody can tell. */
  readonly clockKept?: boolean;
}

export async function readProcess(leastNode: string, wallMs: number): Promise<ProcessFacts> {
  const zeromq = zeroMqProblem();
  const [limits, kept] = await Promise.all([readFile("/proc/self/limits", "utf8").catch(() => ""), askClock()]);
  const files = openFilesIn(limits);
  return {
    node: process.versions.node,
    leastNode,
    wallMs,
    ...(zeromq === undefined ? {} : { zeromq }),
    ...(files === undefined ? {} : { openFiles: files }),
    ...(kept === undefined ? {} : { clockKept: kept }),
  };
}

/** The hard limit of "Max open files" in /proc/self/limits. */
export function openFilesIn(limits: string): number | undefined {
  const found = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits);
  if (found === null) return undefined;
  return found[2] === "unlimited" ? Number.POSITIVE_INFINITY : Number(found[2]);
}

function askClock(): Promise<boolean | undefined> {
  return new Promise((resolve) => {
    const args = ["show", "--property=NTPSynchronized", "--value"];
    execFile("timedatectl", args, { timeout: TIMEOUT_MS, killSignal: "SIGKILL" }, (error, stdout) => {
      const said = error === null ? stdout.trim() : "";
      resolve(said === "yes" ? true : said === "no" ? false : undefined);
    });
  });
}

/** A clock before this cannot be right: cgn was made later. */
const MADE_MS = Date.UTC(2026, 0, 1);

/** Below this a router of a few thousand streams runs out: each takes two. */
const FILES = 8_192;

/** What is wrong with the process itself. Pure. */
export function processFindings(facts: ProcessFacts): Diagnosis[] {
  const { node, leastNode, zeromq, openFiles, wallMs, clockKept } = facts;
  const base = { area: "cgn" } as const;
  const found: Diagnosis[] = [];
  if (compareVersions(node, leastNode) < 0) {
    const what = `Node ${node} runs cgn, which needs ${leastNode} or newer`;
    found.push({ ...base, level: "error", what, mend: "Install a newer Node" });
  } else found.push({ ...base, level: "good", what: `Node ${node}` });
  if (zeromq !== undefined) {
    found.push({
      ...base,
      level: "warning",
      what: zeromq,
      why: "KV events of vLLM and SGLang come by ZeroMQ: without it cache hits are guessed from the history of requests",
      mend: "Install the package again with its optional parts, on a platform that zeromq has a binary for",
      fix: "npm install --include=optional cgn",
      code: "zeromq-missing",
    });
  }
  if (openFiles !== undefined && openFiles < FILES) {
    found.push({
      ...base,
      level: "warning",
      what: `at most ${openFiles} files may be open`,
      why: "a request takes two, so a router with many streams begins to refuse connections",
      mend: "Raise the limit: LimitNOFILE= in the unit, --ulimit nofile= for a container",
      fix: "ulimit -n 65536",
      code: "open-files",
    });
  }
  const clock = { area: "clock", code: "clock-wrong", fix: "sudo timedatectl set-ntp true" } as const;
  const why = "certificates and tokens are refused by a wrong clock, and logs of several hosts do not fit together";
  if (wallMs < MADE_MS) {
    const what = `the clock says ${new Date(wallMs).toISOString().slice(0, 10)}, before cgn was made`;
    found.push({ ...clock, level: "error", what, why, mend: "Set the clock" });
  } else if (clockKept === false) {
    const what = "nothing keeps the clock right (no time synchronisation)";
    found.push({ ...clock, level: "note", what, why, mend: "Switch it on, where several hosts work together" });
  } else if (clockKept === true) found.push({ area: "clock", level: "good", what: "kept by time synchronisation" });
  return found;
}
