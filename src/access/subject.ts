/** What a key or a token may do: ask engines, change things on the admin port, read its views. */
export const SCOPES = ["inference", "admin", "metrics"] as const;
export type Scope = (typeof SCOPES)[number];

/** Limits of one subject. What is undefined does not bind. */
export interface SubjectLimits {
  /** Requests a second. */
  readonly rps?: number;
  /** Requests a minute. */
  readonly rpm?: number;
  /** Prompt and generated tokens a minute. */
  readonly tpm?: number;
  /** Requests in flight, on this router. */
  readonly concurrent?: number;
  /** Longest prompt, in tokens. */
  readonly maxPromptTokens?: number;
}

/** Who asks, as metrics and limits name them. */
export interface Subject {
  readonly name: string;
  /** The router itself checked the caller's key: then it is not the engine's business and is not forwarded. */
  readonly authenticated: boolean;
  /** Names the key or the token's subject in limits: two keys with one name have limits of their own. */
  readonly keyId?: string;
  readonly scopes: ReadonlySet<Scope>;
  /** Globs of the models that may be asked; undefined: all. */
  readonly models?: readonly string[];
  /** Highest `x-cgn-priority`; undefined: any. */
  readonly priority?: number;
  readonly limits: SubjectLimits;
}

/** Everybody, where no keys are asked for. It administers nothing: who may is decided by the address. */
export const ANONYMOUS: Subject = {
  name: "anonymous",
  authenticated: false,
  scopes: new Set(["inference"]),
  limits: {},
};
