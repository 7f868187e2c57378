/** What the admin port answers, as far as the page reads it. */

export interface Load {
  readonly inFlight: number;
  readonly queuedTokens: number;
  readonly streams: number;
}

export interface Worker {
  readonly id: string;
  readonly node: string;
  readonly kind: string;
  readonly url: string;
  readonly models: readonly string[];
  readonly role: string;
  /** `starting`, `ready`, `draining`, `down`, `unloaded`, `asleep` */
  readonly state: string;
  readonly reason: string;
  readonly takesRequests: boolean;
  readonly whyNot?: string;
  readonly breaker?: string;
  readonly onDemand?: boolean;
  readonly unpaired?: string;
  /** In what it differs from one that it works with, where that may go wrong. */
  readonly pairCaution?: string;
  readonly kv: string;
  readonly load: Load;
  readonly cache: {
    readonly requests: number;
    readonly promptTokens: number;
    readonly predictedTokens: number;
    readonly reportedTokens: number;
  };
}

export interface ModelRow {
  readonly model: string;
  readonly workers: number;
  readonly ready: number;
  readonly running: number;
  readonly queued: number;
  readonly waitingForLoad: number;
  readonly problem?: string;
}

export interface TruthWindow {
  readonly seconds: number;
  readonly requests: number;
  readonly exact: number;
  readonly inFlight: number;
  readonly unexplained: number;
  readonly predictedTokens: number;
  readonly reportedTokens: number;
}

/** What kvcached knows of one engine's cache. */
export interface Source {
  readonly worker: string;
  readonly model: string;
  readonly type: "events" | "history";
  readonly state: string;
  readonly detail: string;
  readonly events: number;
  readonly blocks: number;
  readonly gaps: number;
  readonly restarts: number;
  readonly parity: string;
  readonly origin?: string;
  readonly canonicity?: { readonly state: string; readonly detail: string; readonly uncountedBlocks: number };
  readonly truth?: readonly TruthWindow[];
  readonly alarms?: readonly { readonly code: string; readonly message: string; readonly forMs: number }[];
}

export interface Mirror {
  readonly [key: string]: unknown;
}

export interface Status {
  readonly node: string;
  readonly draining: boolean;
  readonly policy: string;
  readonly access?: {
    readonly auth: boolean;
    readonly keysFile?: { readonly problem?: string };
    readonly oidc?: { readonly issuer: string; readonly problem?: string };
    readonly rateLimit?: { readonly store: string; readonly state: string; readonly onLoss?: string };
  };
  readonly tracing?: { readonly endpoint: string; readonly problem?: string };
  readonly models: readonly ModelRow[];
  readonly workers: readonly Worker[];
  readonly sources?: readonly Source[] | { readonly mirrors: readonly Mirror[]; readonly sources: readonly Source[] };
}

/** More about an engine that the router's own process keeps. */
export interface EngineDetail {
  readonly kvOffload?: string;
  readonly spawned: boolean;
  readonly pid?: number;
  readonly starts: number;
  readonly progress?: { readonly elapsedMs: number; readonly deadlineMs: number; readonly lastLine: string };
  readonly crashes?: string;
  readonly error?: string;
}

export interface Outcome {
  readonly result: string;
  readonly status?: number;
  readonly error?: string;
  readonly ttftMs?: number;
  readonly totalMs: number;
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  readonly cachedTokens?: number;
  readonly prediction?: { readonly result: string; readonly reason: string };
}

/** A request as a line. */
export interface RequestRow {
  readonly id: string;
  readonly at: number;
  readonly model: string;
  readonly path: string;
  readonly stream: boolean;
  readonly promptTokens?: number;
  readonly unmatched?: string;
  readonly waitedMs?: number;
  readonly outcome?: Outcome;
  readonly tries: number;
  readonly worker?: string;
  readonly prefill?: string;
  readonly reason?: string;
  readonly predicted?: number;
}

export interface Dashboard {
  readonly now: number;
  readonly status: Status;
  readonly notReady: Readonly<Record<string, string>>;
  readonly engines: Readonly<Record<string, EngineDetail>>;
  readonly gauges: Readonly<
    Record<string, { readonly running?: number; readonly waiting?: number; readonly kvUsage?: number }>
  >;
  readonly requests: readonly RequestRow[];
  readonly can: { readonly load: boolean; readonly logs: boolean; readonly posts: readonly string[] };
}

export interface Terms {
  readonly baseMs: number;
  readonly waitMs: number;
  readonly fetchMs: number;
  readonly prefillMs: number;
  readonly interferenceMs: number;
}

export interface Candidate {
  readonly worker: string;
  readonly score: number;
  readonly ttftMs: number;
  readonly terms: Terms;
  readonly othersMs: number;
  readonly cachedTokens: number;
  readonly uncachedTokens: number;
  readonly inFlight: number;
}

export interface Chosen {
  readonly worker: string;
  readonly node: string;
  readonly reason: string;
  readonly predictedCachedTokens: number;
  readonly candidates: readonly Candidate[];
}

export interface Attempt extends Chosen {
  readonly prefill?: Chosen;
  readonly whole?: string;
  readonly heldBack?: Readonly<Record<string, string>>;
  readonly failed?: string;
}

/** A decision, whole. */
export interface Decision {
  readonly id: string;
  readonly at: number;
  readonly model: string;
  readonly path: string;
  readonly stream: boolean;
  readonly subject?: string;
  readonly traceId?: string;
  readonly policy: string;
  readonly promptBytes?: number;
  readonly promptTokens?: number;
  readonly unmatched?: string;
  readonly waitedMs?: number;
  readonly decisionUs?: number;
  readonly attempts: readonly Attempt[];
  readonly outcome?: Outcome;
}

export interface History {
  readonly fromMs: number;
  readonly stepMs: number;
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>;
}

export interface Prefixes {
  readonly looked: number;
  readonly prefixes: readonly {
    readonly hash: string;
    readonly model: string;
    readonly requests: number;
    readonly bytes: number;
    readonly longer: boolean;
    readonly last: { readonly id: string; readonly atMs: number };
    readonly holders: readonly { readonly worker: string; readonly tokens: number; readonly tier: string }[];
  }[];
}

/** The sources of a kvcached in the router's process, or of those that it copies. */
export function sourcesOf({ sources }: Status): readonly Source[] {
  if (sources === undefined) return [];
  return "sources" in sources ? sources.sources : sources;
}
