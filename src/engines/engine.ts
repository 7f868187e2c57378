import type { z } from "zod";
import type { ChatDialect } from "../core/chat-dialect.ts";
import type { EngineKind, Role } from "../core/engine-kind.ts";
import type { HandOver } from "../core/hand-over.ts";
import type { HostNeeds, Peering } from "../core/host-needs.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { KvSource, TokenizerSource, WorkerTraits } from "../core/worker.ts";
import type { Disaggregation } from "./disaggregation.ts";
import type { EngineVersions } from "./engine-versions.ts";
import type { ServedModel } from "./probe-text.ts";
import type { TokenLogprobs } from "./token-logprobs.ts";
import type { EngineVariant } from "./variant.ts";

/** A `[models."NAME"]` table, resolved. */
export interface ModelSpec {
  /** The name clients use. */
  readonly name: string;
  /** A local folder or file; wins over `hfRepo`. */
  readonly path?: string;
  readonly hfRepo?: string;
  readonly dtype?: string;
  /** Tensor-parallel degree, at least 1. */
  readonly tp: number;
  /** Context limit in tokens. */
  readonly maxModelLen?: number;
  readonly extraArgs: readonly string[];
  /** Where tokenizer and chat template lie when not beside the weights: a folder, a GGUF file, or `bytes` (simulator). */
  readonly tokenizer?: string;
}

/** Where a model's tokenizer and chat template come from; empty for a hub name, which is looked up in the hub's cache. */
export function tokenizerSource(model: ModelSpec): TokenizerSource {
  const from = model.tokenizer ?? model.path;
  if (from === undefined) return {};
  if (from === "bytes" && model.tokenizer !== undefined) return { bytes: true };
  return from.endsWith(".gguf") ? { gguf: from } : { dir: from };
}

/** What the engine is told to load: path, else hub repository, else the name itself. */
export function modelTarget(model: ModelSpec): string {
  return model.path ?? model.hfRepo ?? model.name;
}

/** How many consecutive side ports each engine owns, from `EngineSlot.sidePortBase` on. */
export const SIDE_PORTS = 64;

/** The machine share given to one engine process. */
export interface EngineSlot {
  readonly host: string;
  readonly port: number;
  /** GPU indices in rank order; undefined: the engine sees all. */
  readonly gpus?: readonly number[];
  /** An address of this host that prefill/decode peers can reach; loopback when all peers are on this host. */
  readonly peerAddress: string;
  /** First of `SIDE_PORTS` ports of this engine alone (KV events, replay, NIXL side channels, bootstrap, LMCache, KVBM). */
  readonly sidePortBase: number;
  /** SGLang decode: the bootstrap port of the prefill server it dials by default. */
  readonly prefillBootstrapPort?: number;
  /** Processor cores of the host, and engines that share them. */
  readonly cores: number;
  readonly enginesOnHost: number;
  /** Which of them this is, from 0: picks processor cores for an engine that computes on the CPU. */
  readonly indexOnHost?: number;
  /** What the engine computes on. `unknown` renders for a GPU. */
  readonly platform: "cuda" | "cpu" | "metal" | "unknown";
  /** A folder where files of the plan may be written. */
  readonly stateDir: string;
  /** Version of the engine that is installed, where known. */
  readonly engineVersion?: string;
  /** Folder of cgn's own launchers (`launchers/` of the package), absolute. Needed by llama.cpp's mode `xllamacpp`. */
  readonly launcherDir?: string;
  /** Programs that the PATH has (`llama-server`), where it was looked at: decides between modes that were not written. */
  readonly found?: readonly string[];
}

/** Everything that decides a launch. Same input, same plan, byte for byte. */
export interface LaunchInput<Options> {
  readonly options: Options;
  readonly model: ModelSpec;
  readonly slot: EngineSlot;
  readonly role: Role;
  readonly offload: KvOffload;
  /** `[kv].block_size_tokens` when it was written; the engine's launch has its own default otherwise. */
  readonly blockTokens?: number;
  readonly readyTimeoutMs: number;
  /** How long in-flight requests may take after a stop was asked for. */
  readonly drainGraceMs: number;
  /** True: somebody else started it, so what would be chosen for a start tells nothing (`announce()` only). */
  readonly adopted?: boolean;
  /** `[agent].vllm_cmd`: the old argv template with `{model}` and `{tp}`; replaces the rendered binary and positionals. */
  readonly commandTemplate?: readonly string[];
}

/** One cell of the engine × offload × role table: what the engine accepts, or why it is refused. */
export type OffloadCell =
  | { readonly supported: true; readonly notes: readonly string[] }
  | { readonly supported: false; readonly reason: string };

/** An HTTP exchange with an engine, already done: status 0 when the connection was refused. */
export interface ProbeReply {
  readonly status: number;
  readonly body: string;
}

/** Load as the engine tells it in `/metrics`; fields are absent where it does not. */
export interface EngineLoad {
  readonly running?: number;
  readonly waiting?: number;
  /** Share of KV blocks in use, 0 to 1. */
  readonly kvUsage?: number;
  /** A number that changes whenever it computes something for a request: sums of counters, and of gauges where those are late. */
  readonly progress?: number;
}

/** Tokens looked for behind the GPU memory since the engine started, and found there. */
export interface OffloadHits {
  readonly queriedTokens: number;
  readonly hitTokens: number;
}

/** A chat template as the engine tells it, and what it then makes of messages besides what `Engine.chat` says. */
export interface ToldTemplate {
  readonly template: string;
  readonly bos?: string;
  readonly eos?: string;
  readonly chat?: Partial<ChatDialect>;
}

/** Pure readers of what an engine answers. Paths are relative to its base URL. */
export interface EngineProbe {
  /** What to fetch to know that it can answer, and the verdict. */
  readonly ready: {
    readonly path: string;
    readonly method?: "GET" | "POST";
    readonly body?: string;
    verdict(reply: ProbeReply): "ready" | "loading" | "failed";
    /** How long a ready engine under load may take for the answer, in milliseconds; default 3,000. */
    readonly answerMs?: number;
    /**
     * Asked with GET of an engine that was ready, in place of a probe that computes: any answer at all shows that it is not
     * hung.
     */
    readonly alivePath?: string;
  };
  readonly metrics?: { readonly path: string; parse(text: string): EngineLoad };
  readonly models?: {
    readonly path: string;
    parse(body: string): readonly ServedModel[];
  };
  /** Where the engine tells its chat template (llama.cpp's `/props`). */
  readonly template?: {
    readonly path: string;
    parse(body: string): ToldTemplate | undefined;
  };
  /** Where the engine tells where it publishes KV events. `host` replaces wildcards. One entry a DP rank. */
  readonly kvSources?: { readonly path: string; parse(body: string, host: string): readonly KvSource[] };
  /** Where the engine tells its block size. */
  readonly blockTokens?: { readonly path: string; parse(body: string): number | undefined };
  readonly version?: { readonly path: string; parse(body: string): string | undefined };
  /** Where the engine counts what it looked for in, and found in, the tier behind its GPU memory. */
  readonly offloadHits?: { readonly path: string; parse(text: string): OffloadHits | undefined };
  /** Where an engine tells the tokenizer of its model. Only the simulator does: its vocabulary is built in. */
  readonly tokenizer?: { readonly path: string; parse(body: string): TokenizerSource | undefined };
  /** How an engine is given the key that it then asks of everyone: flags of its command line, and variables it reads. */
  readonly apiKey?: { readonly flags: readonly string[]; readonly variables: readonly string[] };
}

/** A POST to an engine, relative to its base URL. */
export interface EngineCall {
  readonly path: string;
  /** JSON. */
  readonly body?: string;
}

/** How a running engine gives its GPU memory back without ending, and takes it again. Each call's 2xx answer means done. */
export interface SleepCalls {
  readonly sleep: readonly EngineCall[];
  readonly wake: readonly EngineCall[];
}

/** The sources that an engine tells of when it is asked, one a data-parallel rank. */
export function toldSources({ kvSources }: EngineProbe, body: string, host: string): readonly KvSource[] {
  const sources = kvSources?.parse(body, host) ?? [];
  return sources.map((source) => (source.type === "events" ? { ...source, origin: "engine" } : source));
}

/** What may be known of a running engine from its launch. */
export interface Announcement {
  readonly blockTokens?: number;
  readonly kv: KvSource;
  /** Sources of its data-parallel ranks from 1 on; `kv` is rank 0's. */
  readonly ranks?: readonly KvSource[];
  readonly tokenizer: TokenizerSource;
  /** The name the engine wants in `model`, where it differs. */
  readonly upstreamModel?: string;
  readonly maxModelTokens?: number;
}

/**
 * One inference engine, as data and pure functions.
 *
 * All code outside `engines/` is engine-agnostic: it may branch on traits, never on `kind`. Nothing here starts a process,
 * opens a socket or reads a clock. Adding one = its folder and one line in `registry.ts`.
 */
export interface Engine<Options = unknown> {
  readonly kind: EngineKind;
  /** Name of its TOML table below `[engine]`, and other names it is read by. */
  readonly section: string;
  readonly sectionAliases: readonly string[];
  /** False: an endpoint that somebody else runs. */
  readonly spawns: boolean;
  readonly traits: WorkerTraits;
  /**
   * Traits that depend on the options (llama.cpp's modes); `traits` holds for engines without this.
   * @param slot - of an engine that is started; left out for an adopted one
   */
  traitsFor?(options: Options, slot?: EngineSlot): WorkerTraits;
  /**
   * The keys of its TOML section, strict objects with `.describe()` (meaning), `.meta({ unit })` and defaults: the config
   * reference, JSON schema, environment names and `config explain` are made from it.
   */
  readonly schema: z.ZodType<Options>;
  /** Ways in which it may be installed, each as options that are written for it; looked for in this order. Default: one, the defaults. */
  readonly installs?: readonly Readonly<Record<string, string>>[];
  /** Options that put the whole model on a GPU, where the defaults do not. */
  readonly onGpu?: Readonly<Record<string, number>>;
  /** Port used when neither `engine.url` nor the section's `port` is written. */
  defaultPort(options: Options): number;
  /**
   * Did the user write the hand-over of KV between prefill and decode himself? Then a role may stand with offload "none".
   * @param words what he wrote besides the options: the old command template, and the model's extra_args
   */
  writesTransfer?(options: Options, words: readonly string[]): boolean;
  /** The dial: read in one place (its `-offload.ts`). */
  cell(offload: KvOffload, role: Role): OffloadCell;
  /**
   * The launch plan. Assumes a supported cell.
   * @throws CgnError CONFIG_INVALID with all problems, for options that contradict each other
   */
  launch(input: LaunchInput<Options>): LaunchPlan;
  announce(input: LaunchInput<Options>): Announcement;
  /** Versions that the launch is rendered for (`slot.engineVersion`); undefined where nothing differs. */
  readonly versions?: EngineVersions;
  /** What a launch needs of its host, besides what its plan says. Undefined for an engine that is never started. */
  needs?(input: LaunchInput<Options>, plan: LaunchPlan): HostNeeds;
  /** What must agree with the engine at the other end of a hand-over; undefined for one that hands nothing over. */
  peering?(input: LaunchInput<Options>, plan: LaunchPlan): Peering | undefined;
  /** How it hands KV over, as routers must know it; undefined where it does not. */
  handOver?(input: LaunchInput<Options>, plan: LaunchPlan): HandOver | undefined;
  /** Its prefill → decode protocol; undefined for one that has none. */
  readonly disaggregation?: Disaggregation;
  /** The launches that `npm run conformance` puts to real programs of the engine; none where nothing is started. */
  readonly variants: readonly EngineVariant[];
  readonly probe: EngineProbe;
  /** How it sleeps, where it can and its options turn that on: quicker than to end it and start it again. */
  sleeps?(options: Options): SleepCalls | undefined;
  /**
   * Members (JSON text) with which it goes on with a chat's last message, an assistant's, instead of answering it; undefined where it
   * cannot. What it then answers is only what it adds.
   */
  readonly continuesChat?: Readonly<Record<string, string>>;
  /** How it tells the log probabilities of what it generates; undefined: it does not. */
  readonly tokenLogprobs?: TokenLogprobs;
  /** What it makes of a chat's messages. Default `PLAIN_DIALECT`. */
  readonly chat?: ChatDialect;
  /** The container image that its project publishes of a version. */
  image?(version: string): string;
  /** The version that is rendered for when nothing is known of what is installed. */
  readonly newestVersion?: string;
  /** Decode one payload of its KV event publisher. @throws CgnError EVENTS_MALFORMED */
  decodeEvents?(payload: Uint8Array): KvEventBatch;
  /** The same in steps of under a millisecond, for large payloads where others wait for the event loop. */
  decodeEventsInSteps?(payload: Uint8Array): Generator<undefined, KvEventBatch>;
}
