import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { GATE, GUARD, GUARD_TERM_TENTHS } from "./guard.ts";
import { endGroup, endMarked, RUN_VARIABLE, signalProcess } from "./signals.ts";

/** How a process ended. Both undefined: it was not our child, only its absence was seen. */
export interface Exit {
  readonly code?: number;
  readonly signal?: NodeJS.Signals;
}

/** A running process (group) of ours. */
export interface ProcessHandle {
  readonly pid: number;
  /**
   * Settles once the leader has ended, its whole group and (on Linux) all else that it started is gone, and its output has been
   * read. Never rejects.
   */
  readonly exited: Promise<Exit>;
  /** SIGTERM to the leader only: engines that drain must not lose their own children first. */
  terminate(): void;
  /** SIGKILL to the whole group. */
  kill(): void;
  /** Stop watching without ending it. Only for a process without guard. */
  release(): void;
}

export interface SpawnOptions {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Output of the process, as it comes. Ignored with `outputFd`. */
  readonly onOutput: (chunk: Uint8Array) => void;
  /** The process writes straight into this file, so it can outlive the agent. */
  readonly outputFd?: number;
  /** Default true: a guard ends the group when this process dies. */
  readonly guarded?: boolean;
  /** The guard died while the process runs. */
  readonly onGuardLost?: () => void;
  /** Runs once the pid is known and before the command itself starts: where a pid file is written. */
  readonly beforeStart?: (pid: number, run: string) => void;
  /** `oom_score_adj` of the process, where the kernel has one. Default: as it inherits it. */
  readonly oomScoreAdj?: number;
}

const SHELL = "/bin/sh";

/**
 * Start a command without a shell parsing it, as the leader of its own process group, guarded against the death of this
 * process (`guard.ts`). The pid is the command's own.
 * @throws Error (errno) when no process can be made at all; a command that cannot be run exits with 126 or 127.
 */
export async function spawnProcess(options: SpawnOptions): Promise<ProcessHandle> {
  const output = options.outputFd ?? ("pipe" as const);
  const run = randomUUID();
  const oom = options.oomScoreAdj === undefined ? "" : String(options.oomScoreAdj);
  const child = spawn(SHELL, ["-c", GATE, "cgn-gate", oom, ...options.argv], {
    detached: true,
    env: { ...options.env, [RUN_VARIABLE]: run },
    stdio: ["pipe", output, output],
  });
  const ended = watchExit(child, options.onOutput);
  await spawned(child);
  const pid = child.pid!;
  // The engine may end before "go" is read; that is an exit, not an error of ours.
  child.stdin?.on("error", () => {});
  const guard = options.guarded === false ? undefined : await startGuard(pid, run, child);
  try {
    options.beforeStart?.(pid, run);
  } catch (error) {
    // The gate ends unopened, and its guard has nothing to watch.
    child.stdin?.end();
    guard?.stdin?.end("done\n");
    throw error;
  }

  let over = false;
  guard?.once("exit", () => {
    if (!over) options.onGuardLost?.();
  });
  const exited = ended.then(async (exit) => {
    // What the leader left behind holds ports and GPU memory: the next start must find nothing.
    await endGroup(pid);
    await endMarked(run);
    over = true;
    guard?.stdin?.end("done\n");
    return exit;
  });
  child.stdin?.end("go\n");
  if (options.guarded === false) child.unref();
  return {
    pid,
    exited,
    terminate: () => signalProcess(pid, "SIGTERM"),
    kill: () => signalProcess(-pid, "SIGKILL"),
    release: () => child.unref(),
  };
}

/** Start the guard of a gate that still waits, and return once its traps are set. */
async function startGuard(pid: number, run: string, gate: ChildProcess): Promise<ChildProcess> {
  const words = [String(pid), String(GUARD_TERM_TENTHS), `${RUN_VARIABLE}=${run}`];
  const guard = spawn(SHELL, ["-c", GUARD, "cgn-guard", ...words], {
    detached: true,
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    stdio: ["pipe", "pipe", "ignore"],
  });
  guard.on("error", () => {});
  guard.stdin?.on("error", () => {});
  try {
    await spawned(guard);
    await Promise.race([once(guard.stdout!, "data"), failOnExit(guard)]);
  } catch (error) {
    gate.stdin?.end();
    throw error;
  }
  return guard;
}

async function failOnExit(guard: ChildProcess): Promise<never> {
  await once(guard, "exit");
  throw new Error("the guard process ended before it was in place");
}

async function spawned(child: ChildProcess): Promise<void> {
  if (child.pid !== undefined) return;
  const [error] = (await once(child, "error")) as [Error];
  throw error;
}

/** The leader's end, with its last output: the pipe may hold more when "exit" comes, and grandchildren may keep it open. */
function watchExit(child: ChildProcess, onOutput: (chunk: Uint8Array) => void): Promise<Exit> {
  child.stdout?.on("data", onOutput);
  child.stderr?.on("data", onOutput);
  child.on("error", () => {});
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      // First, so that grandchildren let go of the output pipe.
      if (child.pid !== undefined) signalProcess(-child.pid, "SIGKILL");
      const exit = { ...(code === null ? {} : { code }), ...(signal === null ? {} : { signal }) };
      const timer = setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
      }, OUTPUT_AFTER_EXIT_MS);
      child.once("close", () => {
        clearTimeout(timer);
        resolve(exit);
      });
    });
  });
}

/** Time for the last output after the leader's end. */
const OUTPUT_AFTER_EXIT_MS = 200;
