import type { EngineKind, Role } from "./engine-kind.ts";
import type { HandOver } from "./hand-over.ts";
import { type NodeId, type WorkerId, workerId } from "./ids.ts";

/**
 * How an engine must be treated by the request path. All code outside `engines/` branches on these, never on the kind.
 * A missing trait means "no".
 */
export interface WorkerTraits {
  /** Reports `usage.prompt_tokens_details.cached_tokens` (or an equal figure). */
  readonly reportsCachedTokens?: boolean;
  /** A stream carries `usage` only with `stream_options.include_usage`. */
  readonly usageOnlyWhenAsked?: boolean;
  /** Never notices that a non-streaming client left: stream upstream and fold the answer. */
  readonly foldNonStreaming?: boolean;
  /** A client-sent `kv_transfer_params` may kill it: strip them. */
  readonly stripKvTransferParams?: boolean;
  /** Ignores a wrong `model`, so the router must check names itself. */
  readonly ignoresModelName?: boolean;
  /** Closes a connection after an answer without saying so: each request takes a new one. */
  readonly closesConnections?: boolean;
  /** Answers `/tokenize` with chat messages (parity probe). */
  readonly tokenizesChats?: boolean;
  /** What it puts between a message's text parts where the chat template wants plain text. Default a line end (vLLM, llama.cpp). */
  readonly textPartsJoin?: string;
  /** Events of its `/v1/responses` leave out their number and the place of their item in the output. */
  readonly sparseResponseEvents?: boolean;
  /** Tells no log probabilities of what it generates, although its kind of engine can. */
  readonly lacksLogprobs?: boolean;
  /** In role `prefill` or `decode` it still answers whole requests, computing all of it itself. */
  readonly servesWhole?: boolean;
  /** With several data-parallel ranks: the request header that names the rank to compute on. In lower case. */
  readonly rankHeader?: string;
  /** The same, as a member of the body. */
  readonly rankMember?: string;
  /** A request names an adapter by the base model's name, this text and the adapter's name. Absent: by the adapter's name. */
  readonly adapterJoin?: string;
  /** Known paths (core/api-paths.ts) that it has not, whatever the model. */
  readonly lacks?: readonly string[];
}

/**
 * How llama-server keeps prompts: each slot has the last one it computed and computes on in place; a store in RAM has some
 * more. Which of them a request continues is decided by shares, so the longest common prefix alone says too much.
 */
export interface SlotRules {
  /** Requests computed at a time, each in a slot of its own. */
  readonly count: number;
  /** A free slot is taken for its content when more than this share of the new prompt lies in it; else the one longest unused. */
  readonly minShare: number;
  /** Tokens that the store keeps besides the slots; 0: there is no store. */
  readonly storeTokens: number;
  /** Whenever a request starts, all other free slots are emptied into the store. */
  readonly emptiesFree: boolean;
  /** The same, and the slots keep their content besides. Default: as `emptiesFree`. */
  readonly savesFree?: boolean;
}

/** Who says where an engine publishes its KV events. */
export type SourceOrigin = "configuration" | "agent" | "engine";

/** Where knowledge about a worker's cache comes from. */
export type KvSource =
  | {
      readonly type: "events";
      /** ZMQ SUB endpoint of rank 0, for example `tcp://127.0.0.1:5557`. */
      readonly endpoint: string;
      /** ZMQ DEALER endpoint of rank 0; absent when the engine replays nothing. */
      readonly replay?: string;
      readonly topic: string;
      /** Data-parallel rank that this worker is; endpoints are already that rank's own. */
      readonly dpRank: number;
      /** Who said so: the file or a flag, the agent that started it with these, or the engine when it was asked. */
      readonly origin?: SourceOrigin;
    }
  | {
      readonly type: "history";
      /** How many prompts the engine is believed to keep (slots, prompt cache entries). */
      readonly entries: number;
      /** How the engine chooses among its prompts, where it is known; else any prefix of any prompt counts. */
      readonly slots?: SlotRules;
      /** A common prefix of fewer tokens counts as none: engines of an unknown kind keep whole blocks, if anything. */
      readonly minTokens?: number;
    };

/** Where the model's tokenizer and chat template come from. At most one is needed. */
export interface TokenizerSource {
  /** A folder with `tokenizer.json`, and a chat template in `chat_template.jinja` or `tokenizer_config.json`. */
  readonly dir?: string;
  /** A GGUF file. */
  readonly gguf?: string;
  /** Byte level, id = byte: the simulator's built-in vocabulary. */
  readonly bytes?: boolean;
}

/**
 * `unloaded`: not started, its agent starts it when requests wait for it. `asleep`: its process runs and holds neither weights on the
 * GPU nor KV; it is woken in the same way.
 */
export type WorkerState = "starting" | "ready" | "draining" | "down" | "unloaded" | "asleep";

/** Does a worker in this state surely hold no KV? */
export function holdsNothing(state: WorkerState): boolean {
  return state === "down" || state === "unloaded" || state === "asleep";
}

/** How an engine is reached through its agent. */
export interface EngineRelay {
  /** Path below the agent's own address, where the engine's begins. */
  readonly path: string;
  /** Also where the engine's own address could be reached. */
  readonly always: boolean;
}

/** What is measured of an engine and its host now and then. Absent: nobody can tell. */
export interface EngineFigures {
  /** Share of the power limit that is not drawn, 0 to 1: of its GPUs, else of the host. */
  readonly powerHeadroom?: number;
  readonly powerWatts?: number;
  /** Share of its KV blocks that no request uses, 0 to 1. */
  readonly kvFree?: number;
}

/** One engine as the router and kvcached may know it. The KV-offload dial is not part of it. */
export interface WorkerInfo {
  readonly id: WorkerId;
  readonly node: NodeId;
  readonly kind: EngineKind;
  readonly traits: WorkerTraits;
  /** Base URL, without a path. */
  readonly url: string;
  /** Names that clients may use. */
  readonly models: readonly string[];
  /** Those of `models` that are LoRA adapters: what they compute is cached apart, under their name. */
  readonly adapters?: readonly string[];
  /** The name that the engine itself wants in `model`, where it differs from what clients send. */
  readonly upstreamModel?: string;
  readonly role: Role;
  /** Tokens a KV block; undefined when the engine has none that it tells of. */
  readonly blockTokens?: number;
  readonly kv: KvSource;
  /**
   * Sources of its data-parallel ranks from 1 on, while it stands for all of them (`kv` is rank 0's). A directory lists a
   * worker for each: `rankWorkers()`.
   */
  readonly ranks?: readonly KvSource[];
  /** It is one data-parallel rank of so many, with a cache of its own: requests name the rank. */
  readonly rank?: { readonly index: number; readonly of: number };
  readonly tokenizer: TokenizerSource;
  readonly state: WorkerState;
  /** Why it is in that state, for people. */
  readonly reason: string;
  /** With `down`: its process runs and only answers nothing, so its cache is what it was. */
  readonly alive?: boolean;
  /** Why its agent's host may be dead, or cut off from here: others are asked first until that is known. Never sent to other hosts. */
  readonly unheard?: string;
  /** Grows with each start of the process, and when it wakes: what was known about its cache before is void. */
  readonly epoch: number;
  /**
   * Nobody of cgn starts it: `epoch` is counted by whoever watches it (each router for itself, from its own start on), and that another one's
   * count is higher does not say that the process is another.
   */
  readonly watched?: boolean;
  /** Its agent loads it when requests wait for it, whatever its state is now: they wait instead of being refused. */
  readonly onDemand?: boolean;
  /** A reload is starting it anew: it comes back without being asked for, so requests may wait for it. */
  readonly returns?: boolean;
  /** Context limit in tokens, where known. */
  readonly maxModelTokens?: number;
  /** Roles `prefill` and `decode`: how it hands over. */
  readonly handOver?: HandOver;
  /** Its agent passes requests on to it. */
  readonly relay?: EngineRelay;
  readonly figures?: EngineFigures;
}

/**
 * Do the epochs that two processes tell of it say which of its processes is meant? Not of an engine that each of them watches for himself, and
 * whose events tell that it is another.
 */
export const hasOneEpoch = ({ watched, kv }: Pick<WorkerInfo, "watched" | "kv">): boolean =>
  watched !== true || kv.type !== "events";

/** Prompts believed kept by ranks that cannot be told apart. */
const UNION_ENTRIES = 256;

/**
 * The workers that an engine is for routing: one a data-parallel rank, `ID` and `ID#dp1`, `ID#dp2`, … at one URL.
 *
 * Where requests cannot name a rank, the engine chooses, so it is one worker: which rank holds what helps nobody, and what was
 * sent to any of them counts.
 */
export function rankWorkers(worker: WorkerInfo): readonly WorkerInfo[] {
  const { ranks, ...one } = worker;
  if (ranks === undefined) return [worker];
  if (ranks.length === 0) return [one];
  const { rankHeader, rankMember } = worker.traits;
  if (rankHeader === undefined && rankMember === undefined)
    return [{ ...one, kv: { type: "history", entries: UNION_ENTRIES } }];
  const of = ranks.length + 1;
  return [worker.kv, ...ranks].map((kv, index) => ({ ...one, id: rankId(worker.id, index), kv, rank: { index, of } }));
}

/** The id of one data-parallel rank of an engine. */
export function rankId(engine: WorkerId, index: number): WorkerId {
  return index === 0 ? engine : workerId(`${engine}#dp${index}`);
}

/** Who is there. One contract for memory, a static list, and stores shared by hosts. */
export interface WorkerDirectory {
  list(): readonly WorkerInfo[];
  /** Called with the whole list after each change; the result ends it. */
  subscribe(listener: (workers: readonly WorkerInfo[]) => void): () => void;
}
