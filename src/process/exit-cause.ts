import { CgnError, type Code, isCgnError, toCgnError } from "../core/errors.ts";
import { formatDurationMs } from "../core/units.ts";
import { KNOWN_CAUSES } from "./exit-causes.ts";
import { shortageOf } from "./shortage.ts";
import type { Exit } from "./spawn.ts";

/** What an engine's last lines tell about its end. Short and stable: it is a metric label. */
export interface ExitCause {
  readonly cause: string;
  readonly code: Code;
  /** What is, as the middle part of a message. */
  readonly what: string;
  /** What would be right; undefined when nobody can tell. */
  readonly remedy?: string;
  /** A second try with the same command would end the same way. */
  readonly permanent: boolean;
}

/** How many of the last lines are searched. */
const SEARCH_LINES = 100;

/** Lines of engines that go on: what is missing there is not what they ended of. */
const HARMLESS = /^.{0,60}\b(?:DEBUG|INFO|(?<!NCCL )WARN|WARNING)\b/;

/**
 * Recognise why a process ended. Exit codes do not tell a crash from a stop (vLLM exits 0 after its EngineCore was killed;
 * SGLang's parent kills itself), so the last lines are read (`exit-causes.ts`), and what the kernel counted.
 * @param oomKills processes that the kernel ended for want of memory while it ran (`oom-kills.ts`)
 */
export function exitCause(exit: Exit, tail: readonly string[], oomKills = 0): ExitCause {
  const text = tail
    .slice(-SEARCH_LINES)
    .filter((line) => !HARMLESS.test(line))
    .join("\n");
  const known = KNOWN_CAUSES.find(({ pattern }) => pattern.test(text));
  const killed = exit.signal === "SIGKILL" || exit.code === 128 + 9;
  // The kernel kills a worker; the engine then says that its core died.
  if (oomKills > 0 && (killed || known === undefined || known.cause === "engine-core")) return HOST_OOM;
  if (known !== undefined) {
    const { cause, code, remedy, permanent } = known;
    const said =
      known.pattern
        .exec(text)
        ?.slice(1)
        .find((group) => group !== undefined) ?? "";
    const what = known.what.replace("$1", () => said.replace(/\s+/g, " ").trim().slice(0, 200));
    return { cause, code, what, permanent, ...(remedy === undefined ? {} : { remedy }) };
  }
  if (exit.code === 126 || exit.code === 127) {
    return { cause: "not-found", code: "ENGINE_NOT_FOUND", what: "its command cannot be run", permanent: true };
  }
  if (killed) {
    const remedy = "Look for the out-of-memory killer in the kernel's log";
    return { cause: "killed", code: "ENGINE_EXITED", what: "it was killed (SIGKILL)", remedy, permanent: false };
  }
  const how = exit.signal !== undefined ? `by ${exit.signal}` : exit.code === undefined ? "" : `with code ${exit.code}`;
  return { cause: "exit", code: "ENGINE_EXITED", what: `it ended ${how}`.trimEnd(), permanent: false };
}

/** Counted by the kernel, whatever the engine says. */
const HOST_OOM: ExitCause = {
  cause: "oom-killed",
  code: "ENGINE_EXITED",
  what: "the kernel's out-of-memory killer ended it: the host or its cgroup had no memory left",
  remedy:
    "Lower the sizes of CPU caches and offloads, load fewer engines, or raise the memory limit of the unit or container",
  permanent: false,
};

/** The error of an engine that ended: what, the remedy, and its last lines. */
export function exitError(name: string, exit: Exit, cause: ExitCause, output: OutputView): CgnError {
  const remedy = cause.remedy ?? "The reason should stand in its log";
  return new CgnError(cause.code, `Cannot run ${name}: ${cause.what}. ${remedy} (${where(output)})`, {
    engine: name,
    exitCode: exit.code ?? null,
    tail: tailText(output),
    cause: cause.cause,
    model: "",
    known: [],
  }) as CgnError;
}

/** The error of an engine that runs and does not get ready. `afterMs` undefined: it says itself that it cannot. */
export function notReadyError(name: string, afterMs: number | undefined, output: OutputView): CgnError {
  const message =
    afterMs === undefined
      ? `Cannot start ${name}: its readiness probe says that it failed to load. The reason should stand in its log`
      : `Cannot start ${name}: not ready within ${formatDurationMs(afterMs)}. Raise [agent].ready_timeout if it was still loading`;
  return new CgnError("ENGINE_NOT_READY", `${message} (${where(output)})`, {
    engine: name,
    tail: tailText(output),
    ...(afterMs === undefined ? {} : { afterMs }),
  }) as CgnError;
}

/** The error of a process that could not be made, with what would help. */
export function startError(name: string, error: unknown): CgnError {
  const shortage = shortageOf(error);
  if (shortage === undefined || isCgnError(error)) return toCgnError(error);
  const { what, limit } = SHORT_OF[shortage] ?? { what: "resources", limit: "this host's limits" };
  const said = error instanceof Error ? error.message : String(error);
  return new CgnError(
    "ENGINE_NOT_READY",
    `Cannot start ${name}: no ${what} left for its process (${said}). Raise ${limit}`,
    { engine: name, cause: shortage },
    { cause: error },
  ) as CgnError;
}

/** The error of an engine that another agent, which runs, has in its care. */
export function ownedError(name: string, pid: number, owner: number): CgnError {
  const message = `Cannot start ${name}: it runs already (pid ${pid}), in the care of another agent (pid ${owner})`;
  const details = { engine: name, pid, owner };
  return new CgnError(
    "ENGINE_NOT_READY",
    `${message}. Stop that agent first, or set another [agent].node_id`,
    details,
  ) as CgnError;
}

const FILES = { what: "file descriptors", limit: "the limit on open files (ulimit -n, LimitNOFILE of the unit)" };
const SHORT_OF: Readonly<Record<string, { readonly what: string; readonly limit: string }>> = {
  EMFILE: FILES,
  ENFILE: { what: "file descriptors", limit: "the host's limit on open files (fs.file-max)" },
  EAGAIN: { what: "processes", limit: "the limit on processes (ulimit -u, TasksMax of the unit)" },
  ENOMEM: { what: "memory", limit: "the memory that it may use, or free some" },
};

/** The last lines of a process and where the rest is. */
export interface OutputView {
  readonly path: string;
  readonly tail: { last(count: number): readonly string[] };
  /** That it ended before, in words; empty or absent: it did not. */
  readonly crashes?: string;
  /** What a stable run, and one that ended by itself, wrote. */
  readonly goodLog?: string;
  readonly badLog?: string;
}

/** Lines of the log beside an error: `details.tail`, which the command line prints below the message. */
const SHOWN_LINES = 12;

/** Where the logs are: the one that goes on, and in a loop the last good run's to compare with. */
function where({ path, crashes, goodLog, badLog }: OutputView): string {
  const good = goodLog === undefined ? "" : `; the last good run: ${goodLog}`;
  return crashes === undefined || crashes === "" ? path : `${crashes}; the last one: ${badLog ?? path}${good}`;
}

const tailText = ({ tail }: OutputView): string => tail.last(SHOWN_LINES).join("\n");
