import type { EngineKind, Role } from "./engine-kind.ts";
import type { KvOffload } from "./kv-offload.ts";

/** A value of the environment: plain text, or a secret that is read when the process starts and never printed. */
export type EnvValue = string | { readonly secretFrom: string };

/** A port that the plan opens or dials on this host. */
export interface PlanPort {
  /** `http`, `kv-events`, `kv-replay`, `nixl-side-channel`, `bootstrap`, `lmcache`, … */
  readonly name: string;
  readonly port: number;
  /** How many consecutive ports are taken from `port` on (one per DP rank). Default 1. */
  readonly count?: number;
}

/** A file that must exist before the engine starts. */
export interface PlanFile {
  readonly path: string;
  /** Octal, for example `0600`. */
  readonly mode: string;
  readonly content: string;
}

export interface PlanRequirement {
  readonly what: "binary" | "python package" | "file" | "gpu" | "python module";
  readonly name: string;
  /** Version range, where one is known. */
  readonly range?: string;
}

export interface PlanWarning {
  /** Kebab-case, stable. */
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

/** Why an argument or variable is there, and the source of the fact (project, file or doc page, version). */
export interface PlanReason {
  readonly arg: string;
  readonly why: string;
  readonly source: string;
}

/** How to know that the engine can answer. */
export interface PlanReadiness {
  readonly path: string;
  readonly timeoutMs: number;
  /** Default GET. POST sends `body` (engines whose health is 200 before the model is loaded). */
  readonly method?: "GET" | "POST";
  readonly body?: string;
}

/** How the supervisor must end the process. */
export interface PlanStop {
  /** Milliseconds between the first SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** Send a second SIGTERM after this many milliseconds (llama-server goes only then). */
  readonly secondTermMs?: number;
  /** False: the router must drain before SIGTERM, the engine cuts streams at once. */
  readonly drainsOnSigterm: boolean;
}

/** A process that must run beside the engine (an LMCache server). Started before it, stopped after it. */
export interface PlanSidecar {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, EnvValue>>;
  readonly ready: { readonly tcpPort: number; readonly timeoutMs: number };
}

/**
 * A process to start, fully spelled out. Never a shell string: argv cannot be injected into.
 *
 * `argv` is empty when nothing is spawned (`openai_compat`, or `spawn = false`).
 */
export interface LaunchPlan {
  readonly version: 1;
  readonly engine: EngineKind;
  readonly kvOffload: KvOffload;
  readonly role: Role;
  /** The name that clients use (the first served name). */
  readonly model: string;
  /** Base URL the engine listens on, without a path. */
  readonly url: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, EnvValue>>;
  readonly files: readonly PlanFile[];
  readonly ports: readonly PlanPort[];
  readonly ready: PlanReadiness;
  readonly stop: PlanStop;
  readonly sidecars: readonly PlanSidecar[];
  readonly requires: readonly PlanRequirement[];
  readonly warnings: readonly PlanWarning[];
  readonly reasons: readonly PlanReason[];
}
