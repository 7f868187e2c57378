import { CgnError, type Code, isCgnError, toCgnError } from "../core/errors.ts";
import { formatDurationMs } from "../core/units.ts";
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

interface Known extends Omit<ExitCause, "what"> {
  readonly pattern: RegExp;
  readonly what: string;
}

/**
 * Exit codes do not tell a crash from a stop (vLLM exits 0 after its EngineCore was killed; SGLang's parent kills itself), so
 * causes are read in the log. Seen on running engines: `No module named`, the refused arguments, `failed to load model`, and
 * llama-server's words for a port in use. The rest (hub errors, GPU memory, a dead engine core, a port in use on Python) is how
 * the engines and their libraries are known to put it; it was not provoked here. The first that matches wins; `$1` in `what` is
 * the pattern's first group.
 */
const KNOWN: readonly Known[] = [
  {
    pattern: /No module named ['"]?([\w.]+)|ModuleNotFoundError: .*?['"]([\w.]+)['"]/,
    cause: "module-missing",
    code: "ENGINE_NOT_FOUND",
    what: 'the Python module "$1" is not installed',
    remedy: 'Install it into the environment of the engine\'s "binary"',
    permanent: true,
  },
  {
    pattern: /couldn't bind HTTP server socket|[Aa]ddress already in use|EADDRINUSE/,
    cause: "port-in-use",
    code: "PORT_IN_USE",
    what: "a port it needs is in use",
    remedy: "End the process that holds it, or choose other ports",
    permanent: false,
  },
  {
    pattern: /(unrecognized arguments?: .*|error: invalid argument: .*|error: argument .*|unknown argument: .*)/,
    cause: "arguments",
    code: "ENGINE_EXITED",
    what: "it refuses its arguments ($1)",
    remedy: 'Look at "cgn render" and at extra_args; the engine may be another version than expected',
    permanent: true,
  },
  {
    pattern:
      /(failed to load model|is not a local folder and is not a valid model identifier|Repository Not Found|RepositoryNotFoundError|GatedRepoError|does not appear to have a file named \S+)/,
    cause: "model",
    code: "MODEL_NOT_FOUND",
    what: "it cannot load the model ($1)",
    remedy: "Check the model's path or hf_repo, and access to the hub",
    permanent: true,
  },
  {
    pattern:
      /(CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks|Not enough memory|cudaErrorMemoryAllocation)/,
    cause: "gpu-memory",
    code: "ENGINE_EXITED",
    what: "GPU memory does not suffice ($1)",
    remedy: "Lower the memory share or the context length, or free the GPU",
    permanent: false,
  },
  {
    pattern: /(EngineDeadError|EngineCore encountered a fatal error|Engine core proc \S+ died)/,
    cause: "engine-core",
    code: "ENGINE_EXITED",
    what: "its engine core died ($1)",
    permanent: false,
  },
];

/** How many of the last lines are searched. */
const SEARCH_LINES = 100;

/** Recognise why a process ended, from its last lines and its status. */
export function exitCause(exit: Exit, tail: readonly string[]): ExitCause {
  const text = tail.slice(-SEARCH_LINES).join("\n");
  for (const { pattern, what, ...known } of KNOWN) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const said = match.slice(1).find((group) => group !== undefined) ?? "";
    return { ...known, what: what.replace("$1", said.slice(0, 200)) };
  }
  if (exit.code === 126 || exit.code === 127) {
    return { cause: "not-found", code: "ENGINE_NOT_FOUND", what: "its command cannot be run", permanent: true };
  }
  if (exit.signal === "SIGKILL") {
    const remedy = "Look for the out-of-memory killer in the kernel's log";
    return { cause: "killed", code: "ENGINE_EXITED", what: "it was killed (SIGKILL)", remedy, permanent: false };
  }
  const how = exit.signal !== undefined ? `by ${exit.signal}` : exit.code === undefined ? "" : `with code ${exit.code}`;
  return { cause: "exit", code: "ENGINE_EXITED", what: `it ended ${how}`.trimEnd(), permanent: false };
}

/** The error of an engine that ended: what, the remedy, and its last lines. */
export function exitError(name: string, exit: Exit, cause: ExitCause, output: OutputView): CgnError {
  const remedy = cause.remedy ?? "The reason should stand in its log";
  return new CgnError(cause.code, `Cannot run ${name}: ${cause.what}. ${remedy} (${output.path})`, {
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
  return new CgnError("ENGINE_NOT_READY", `${message} (${output.path})`, {
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
}

/** Lines of the log beside an error: `details.tail`, which the command line prints below the message. */
const SHOWN_LINES = 12;

const tailText = ({ tail }: OutputView): string => tail.last(SHOWN_LINES).join("\n");
