/** Who must act. Decides the log level, and whether a client may see the message. */
export type Blame = "user" | "upstream" | "cgn" | "caller-left";

interface CodeRow {
  readonly blame: Blame;
  /** HTTP status when it reaches a client of the router. */
  readonly http: number;
  /** Exit code of a command that ends with it (the table operators' units rely on). */
  readonly exit: number;
  /** May another worker, or the same one later, do better? */
  readonly retry: boolean;
}

/** Closed table. A row needs a heading in docs/errors.md; a test compares the two. */
export const CODES = {
  BAD_INVOCATION: { blame: "user", http: 400, exit: 2, retry: false },
  CONFIG_INVALID: { blame: "user", http: 400, exit: 3, retry: false },
  CONFIG_NOT_FOUND: { blame: "user", http: 400, exit: 3, retry: false },
  OFFLOAD_REFUSED: { blame: "user", http: 400, exit: 3, retry: false },
  DEPENDENCY_UNREACHABLE: { blame: "upstream", http: 503, exit: 4, retry: true },
  TLS_INVALID: { blame: "user", http: 500, exit: 5, retry: false },
  ENGINE_NOT_FOUND: { blame: "user", http: 502, exit: 6, retry: false },
  ENGINE_EXITED: { blame: "upstream", http: 502, exit: 6, retry: true },
  ENGINE_NOT_READY: { blame: "upstream", http: 503, exit: 6, retry: true },
  MODEL_NOT_FOUND: { blame: "user", http: 404, exit: 6, retry: false },
  PORT_IN_USE: { blame: "user", http: 500, exit: 7, retry: false },
  STORAGE_UNUSABLE: { blame: "user", http: 500, exit: 8, retry: false },
  NOT_SUPPORTED: { blame: "user", http: 501, exit: 9, retry: false },
  REQUEST_INVALID: { blame: "user", http: 400, exit: 1, retry: false },
  REQUEST_TOO_LARGE: { blame: "user", http: 413, exit: 1, retry: false },
  REQUEST_TIMEOUT: { blame: "upstream", http: 504, exit: 1, retry: true },
  UNAUTHENTICATED: { blame: "user", http: 401, exit: 1, retry: false },
  FORBIDDEN: { blame: "user", http: 403, exit: 1, retry: false },
  RATE_LIMITED: { blame: "user", http: 429, exit: 1, retry: true },
  PROMPT_TOO_LONG: { blame: "user", http: 400, exit: 1, retry: false },
  ROUTE_NOT_FOUND: { blame: "user", http: 404, exit: 1, retry: false },
  HOST_REFUSED: { blame: "user", http: 421, exit: 1, retry: false },
  METHOD_NOT_ALLOWED: { blame: "user", http: 405, exit: 1, retry: false },
  OVERLOADED: { blame: "upstream", http: 429, exit: 1, retry: true },
  NO_WORKER: { blame: "upstream", http: 503, exit: 4, retry: true },
  UPSTREAM_FAILED: { blame: "upstream", http: 502, exit: 1, retry: true },
  EVENTS_MALFORMED: { blame: "upstream", http: 502, exit: 1, retry: false },
  CAPTURE_INVALID: { blame: "user", http: 400, exit: 1, retry: false },
  TRACE_INVALID: { blame: "user", http: 400, exit: 1, retry: false },
  TEMPLATE_FAILED: { blame: "user", http: 400, exit: 1, retry: false },
  CALLER_LEFT: { blame: "caller-left", http: 499, exit: 130, retry: false },
  BUG: { blame: "cgn", http: 500, exit: 1, retry: false },
} as const satisfies Record<string, CodeRow>;

export type Code = keyof typeof CODES;

/** One thing that is wrong in a file, with its place. Line and column count from 1. */
export interface Problem {
  readonly severity: "error" | "warning";
  /** Dotted key, for example `engine.kv_offload`. */
  readonly path: string;
  readonly file?: string;
  readonly line?: number;
  readonly column?: number;
  /** What is. */
  readonly problem: string;
  /** What would be right. */
  readonly remedy?: string;
  /** Kebab-case, stable: what docs/errors.md explains. Findings on hosts and warnings of plans have one. */
  readonly code?: string;
  /** A shell command that would mend it. Never run by cgn. */
  readonly fix?: string;
}

/** The facts a handler may branch on; the message is for people only. Codes not listed carry free-form facts. */
interface Details {
  CONFIG_INVALID: { readonly problems: readonly Problem[] };
  OFFLOAD_REFUSED: { readonly accepted: readonly string[]; readonly problems?: readonly Problem[] };
  ENGINE_EXITED: { readonly engine: string; readonly exitCode: number | null; readonly tail: string };
  NO_WORKER: {
    readonly model: string;
    readonly reasons: Readonly<Record<string, string>>;
    readonly retryAfterS: number;
  };
  /** Without a time: to try again is in vain. */
  OVERLOADED: { readonly retryAfterS?: number };
  RATE_LIMITED: { readonly retryAfterS: number };
  MODEL_NOT_FOUND: { readonly model: string; readonly known: readonly string[] };
}

export type DetailsOf<C extends Code> = C extends keyof Details ? Details[C] : Readonly<Record<string, unknown>>;

/** The only error class that crosses a module boundary. Message: "Cannot VERB OBJECT: what is. What would be right". */
export class CgnError<C extends Code = Code> extends Error {
  override readonly name = "CgnError";
  readonly code: C;
  readonly details: DetailsOf<C>;

  constructor(code: C, message: string, details: DetailsOf<C>, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}

/** Match by name and code: `instanceof` fails when two copies of cgn are loaded. */
export function isCgnError<C extends Code>(e: unknown, code?: C): e is CgnError<C> {
  return e instanceof Error && e.name === "CgnError" && "code" in e && (code === undefined || e.code === code);
}

/** Turn anything thrown into a CgnError at a process or HTTP edge; the original is kept as `cause`. */
export function toCgnError(e: unknown): CgnError {
  if (isCgnError(e)) return e as CgnError;
  const said = e instanceof Error ? e.message : String(e);
  return new CgnError("BUG", `Unexpected failure: ${said}`, {}, { cause: e }) as CgnError;
}
