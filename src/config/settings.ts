import type { KeyEntry } from "../access/key-lines.ts";
import type { OidcSettings } from "../access/oidc.ts";
import type { EngineKind, Role } from "../core/engine-kind.ts";
import type { Problem } from "../core/errors.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { EnvValue } from "../core/launch-plan.ts";
import type { SwapGroup } from "../core/swap-rules.ts";
import type { EngineSlot, ModelSpec } from "../engines/engine.ts";
import type { KeyPath } from "./key-path.ts";
import type { WrittenFolder } from "./written-folders.ts";

/**
 * A loaded configuration: every value settled (defaults, file, environment, flags), aliases folded, durations in ms.
 *
 * "A limit binds only when it is written": such fields are undefined unless the user set them.
 */
export interface Settings {
  /** Where it was read from; undefined: defaults only. */
  readonly file?: string;
  readonly cluster: ClusterSettings;
  readonly router: RouterSettings;
  readonly agent: AgentSettings;
  readonly kv: KvSettings;
  readonly security: SecuritySettings;
  readonly auth: AuthSettings;
  readonly metrics: MetricsSettings;
  readonly tracing: TracingSettings;
  readonly models: readonly ModelSettings[];
  /** One for each engine of this host, in the file's order ([engine] or [[engines]]), ready to launch or adopt. */
  readonly engines: readonly EngineSettings[];
  readonly swap: SwapSettings;
  readonly warnings: readonly Problem[];
  /** Folders and sockets that were written: each must be usable where it is used (`requireFolders()`). */
  readonly folders?: readonly WrittenFolder[];
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

export interface ClusterSettings {
  readonly name: string;
  readonly stateBackend: "memory" | "static" | "etcd" | "kubernetes" | "gossip";
  /** By which other hosts reach this one; undefined: by the address listened on, else by `hostAddress`. */
  readonly advertiseHost?: string;
  /** First address of this host that others could reach. */
  readonly hostAddress?: string;
  readonly leaseTtlMs: number;
  readonly etcdEndpoints: readonly string[];
  readonly etcdUser?: { readonly name: string; readonly password: string };
  /** PEM files for `https:` endpoints; undefined fields: `[security].ca_file`, and no certificate of ours. */
  readonly etcdTls: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };
  readonly kubernetes: { readonly namespace?: string; readonly selector: string };
  readonly gossipSeeds: readonly string[];
  readonly dataDir?: string;
  /** File that lists the daemons, for `static`. */
  readonly staticFile?: string;
}

/** Models that are asked one after the other for requests under one name, the smallest first. */
export interface CascadeChain {
  readonly name: string;
  /** After the model of that name, where some engine serves it. */
  readonly models: readonly string[];
  /** As `ModelSettings.cascadeThresholds`, never empty. */
  readonly thresholds: readonly number[];
  /** So many first tokens are judged; 0: all. */
  readonly tokens: number;
  /** What becomes of an answer without log probabilities: `next` asks the next model, `keep` gives it to the client. */
  readonly unjudged: "next" | "keep";
}

export interface RouterSettings {
  readonly listenHttp: HostPort;
  readonly listenGrpc: HostPort;
  readonly listenAdmin: HostPort;
  readonly nodeId: string;
  readonly workerThreads: number;
  readonly policy: string;
  /** Largest request body in bytes (413 above). */
  readonly maxBodyBytes: number;
  /** How long answers may take, and what becomes of a stream whose engine dies. */
  readonly answers: AnswerSettings;
  /** The same for models that have rules of their own, all fields settled. */
  readonly modelAnswers: Readonly<Record<string, AnswerSettings>>;
  /** File of requests without content, one JSON line each. */
  readonly requestLog?: string;
  readonly scoreWeights: {
    readonly kv: number;
    readonly load: number;
    readonly power: number;
    readonly capacity: number;
  };
  /** Undefined fields do not bind. */
  readonly admission: {
    readonly maxQueue?: number;
    readonly ttftSloMs?: number;
    readonly maxConcurrentPerReplica?: number;
    readonly queueTimeoutMs?: number;
  };
  /** Waiting for a model that is loaded on demand (`[swap]`). */
  readonly loadWait: { readonly timeoutMs: number; readonly keepAliveMs: number };
  readonly rateLimit: {
    readonly enabled: boolean;
    /** `rps` binds, not only limits of each subject. */
    readonly limitsAll: boolean;
    readonly rps: number;
    readonly burst: number;
    readonly rpsPerSubject?: number;
    readonly rpmPerSubject?: number;
    readonly tpmPerSubject?: number;
    readonly concurrentPerSubject?: number;
    readonly redisUrl?: string;
    readonly onRedisLoss: "local" | "open" | "closed";
  };
  /** Web pages that may call; undefined: none. */
  readonly cors?: CorsSettings;
  /** Names that stand for several models, by name. Empty while `[router.cascade]` is off. */
  readonly cascades: Readonly<Record<string, CascadeChain>>;
  readonly disagg: {
    /** False only where `enabled = false` is written. */
    readonly splits: boolean;
    readonly colocateBelowTokens: number;
    readonly prefillTimeoutMs: number;
  };
  /** Undefined: there is none. */
  readonly federation?: FederationSettings;
}

/** All times in ms; 0: no limit. */
export interface AnswerSettings {
  /** From the request to a stream's first token. */
  readonly firstTokenMs: number;
  /** From the request to the end of an answer that is not streamed. */
  readonly answerMs: number;
  /** Silence of a stream after its first token. */
  readonly stallMs: number;
  /** A stream whose engine dies goes on at another worker. */
  readonly continueStreams: boolean;
}

/** What a model has of its own. */
export type ModelAnswers = { readonly [K in keyof AnswerSettings]?: AnswerSettings[K] };

/** Other clusters that take what this one cannot. */
export interface FederationSettings {
  /** Base URLs of their routers; one at least. */
  readonly peers: readonly string[];
  readonly key?: string;
  readonly maxHops: number;
  readonly healthIntervalMs: number;
}

export interface AgentSettings {
  readonly listen: HostPort;
  readonly listenGrpc?: HostPort;
  readonly listenAdmin?: HostPort;
  readonly nodeId: string;
  readonly role: Role;
  readonly kvUds: string;
  /** Which engines other hosts reach through the agent's port. */
  readonly relay: "auto" | "always" | "never";
  readonly readyTimeoutMs: number;
  readonly readyProbeUrl?: string;
  readonly heartbeatMs: number;
  readonly drainGraceMs: number;
  /** True: engines outlive the agent, and no guard watches them. */
  readonly keepEngines: boolean;
  readonly logDir: string;
  /** Of each engine's log: the size at which it is rotated, and how many files there are in all. */
  readonly logBounds: { readonly fileBytes: number; readonly files: number };
  /** Requests without progress for so long are a stall; 0: never. */
  readonly stallMs: number;
  /** `oom_score_adj` of engines, when it was written. */
  readonly oomScoreAdj?: number;
  readonly stateDir: string;
}

export interface KvSettings {
  readonly listen: HostPort;
  readonly uds: string;
  /** Hard cap of the index in bytes. */
  readonly ramBytes: number;
  readonly indexDir: string;
  /** Time between two snapshots; 0: only the last. */
  readonly snapshotEveryMs: number;
  /** Undefined unless written. */
  readonly blockSizeTokens?: number;
}

export interface SecuritySettings {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly clientCaFile?: string;
  readonly requireMtls: boolean;
}

export interface CorsSettings {
  /** `*`: any. */
  readonly origins: readonly string[];
  readonly headers: readonly string[];
  readonly maxAgeMs: number;
}

export interface AuthSettings {
  readonly enabled: boolean;
  readonly apiKeysFile?: string;
  /** Of `[[auth.keys]]`. */
  readonly keys: readonly KeyEntry[];
  readonly oidc?: OidcSettings;
  readonly protectMetrics: boolean;
  /** Of all engines that ask for one. */
  readonly engineKey?: string;
}

export interface TracingSettings {
  /** Undefined: nothing is traced. */
  readonly otlpEndpoint?: string;
  readonly sampleRatio: number;
  readonly serviceName: string;
  /** `name=value`, with commas between them. */
  readonly headers?: string;
}

export interface MetricsSettings {
  readonly listen: HostPort;
  readonly scrapeIntervalMs: number;
  readonly scrapeTargets: readonly { readonly name: string; readonly url: string }[];
  /** The host's management controller, where one is named. */
  readonly redfish?: { readonly url: string; readonly user?: string; readonly password?: string };
}

export interface ModelSettings extends ModelSpec {
  /** Models that are asked after it; empty: it is asked alone. */
  readonly cascade: readonly string[];
  /** For its chain, from the end: the last is that of the last model but one. Of one alone for all. Empty: the router's. */
  readonly cascadeThresholds: readonly number[];
  readonly maxPromptTokens?: number;
  /** Rules for its answers that differ from the router's. */
  readonly answers?: ModelAnswers;
  readonly prefillReplicas?: number;
  readonly decodeReplicas?: number;
}

/** How an engine that is loaded on demand stands to the others. */
export interface EngineOnDemand {
  readonly group?: SwapGroup;
  /** GPUs that it fills; empty: none are known. */
  readonly gpus: readonly number[];
  /** 0: not counted. */
  readonly memoryBytes: number;
  /** Its place in the order in which models are loaded at the start; undefined: with its first request. */
  readonly preload?: number;
}

/** `[swap]` as the agent takes it; what the router takes is `RouterSettings.loadWait`. */
export interface SwapSettings {
  readonly minResidencyMs: number;
  /** Undefined: no budget. */
  readonly memoryBytes?: number;
}

/** One engine, with all that `Engine.launch()` needs besides the engine object itself. */
export interface EngineSettings {
  /** `[[engines]].node_id`, else the agent's (with the engine's index from the second on). */
  readonly nodeId: string;
  readonly kind: EngineKind;
  /** Base URL, without a path. */
  readonly url: string;
  readonly kvOffload: KvOffload;
  readonly role: Role;
  /** False adopts an engine that somebody else started. */
  readonly spawn: boolean;
  readonly model: ModelSpec;
  /** Undefined only for an adopted engine whose model is to be asked from it: then `model.name` is "". */
  readonly slot: EngineSlot;
  /** The engine's own section, parsed by its schema. */
  readonly options: unknown;
  readonly blockTokens?: number;
  readonly readyTimeoutMs: number;
  readonly drainGraceMs: number;
  readonly stallMs: number;
  /** What the user wrote into its environment; wins over what is rendered. */
  readonly env: Readonly<Record<string, EnvValue>>;
  /** Which variables of cgn's own environment it gets: all, the usual few, or those and the named ones (`HF_*`). */
  readonly inheritEnv: boolean | readonly string[];
  /** URLs of the engines of this host that are started before it and stopped after it. */
  readonly startAfter: readonly string[];
  /** Other engines with this flag may have its GPUs. */
  readonly shareGpus: boolean;
  readonly commandTemplate?: readonly string[];
  readonly group?: string;
  readonly ttlMs?: number;
  /** Undefined unless written. */
  readonly preload?: boolean;
  readonly memoryBytes?: number;
  /** Where it stands in the file: problems with it are told there. */
  readonly path: KeyPath;
  /** It is loaded when requests wait for it. Absent: it runs as long as its agent does. */
  readonly onDemand?: EngineOnDemand;
  /** Where an adopted engine publishes KV events, when that was written; otherwise it is asked. */
  readonly kvEvents?: { readonly endpoint: string; readonly replay?: string };
}
