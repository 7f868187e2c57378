import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { type Code as CgnCode, isCgnError } from "../core/errors.ts";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { KvSourceStatus, KvStats } from "../core/kv-status.ts";
import type { PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { PrefixIndex } from "./gen/cgn/kv/v1/kv_pb.ts";
import { MAX_PROMPT_BYTES } from "./kv-limits.ts";
import { type KvNote, notesFromMessage } from "./kv-note.ts";
import { sourceToMessage } from "./source-message.ts";
import { statsToMessage } from "./stats-message.ts";
import {
  askFromMessage,
  type EncodedDelta,
  type WatchAsk,
  type WatchMessage,
  watchToMessage,
} from "./watch-message.ts";
import { workerFromMessage } from "./worker-message.ts";

/** Token ids of a prompt. */
export type TokenIds = readonly number[] | Uint32Array;

/** What stands behind the `cgn.kv.v1.PrefixIndex` service. */
export interface KvService extends PrefixKnowledge {
  register(worker: WorkerInfo): void;
  /** @returns whether it was followed */
  unregister(id: WorkerId): boolean;
  sources(): readonly KvSourceStatus[];
  stats(): KvStats;
  /** `sent`, `unsent` and `observe`, with who says it. */
  hear(note: KvNote): void;
  /**
   * Everything that is known, then each change; it ends with `signal`.
   * @throws CgnError OVERLOADED when the watcher takes its messages too slowly
   */
  watch(ask: WatchAsk, signal: AbortSignal): AsyncIterable<WatchMessage<EncodedDelta>>;
  /** Does a worker serve it? */
  knowsModel(model: string): boolean;
  /** The text of a prompt of token ids. @throws CgnError saying what is wrong with them, or with the model */
  decodePrompt(model: string, tokenIds: TokenIds): Promise<Uint8Array>;
}

/** The routes of `cgn.kv.v1.PrefixIndex`. */
export function kvRoutes(service: KvService): (router: ConnectRouter) => void {
  return (router) => {
    router.service(PrefixIndex, {
      match: async (request) => ({ matches: await answerMatch(service, request) }),
      async *watch(request, context) {
        try {
          for await (const message of service.watch(askFromMessage(request), context.signal))
            yield watchToMessage(message);
        } catch (error) {
          throw asConnectError(error);
        }
      },
      register(request) {
        if (request.worker === undefined) throw new ConnectError("worker is missing", Code.InvalidArgument);
        try {
          service.register(workerFromMessage(request.worker));
        } catch (error) {
          throw asConnectError(error);
        }
        return {};
      },
      unregister(request) {
        if (service.unregister(workerId(request.worker))) return {};
        const message = `Cannot unregister "${request.worker}": it is not registered. Look at cgn kv sources`;
        throw new ConnectError(message, Code.NotFound);
      },
      sources: () => ({ sources: service.sources().map(sourceToMessage) }),
      stats: () => statsToMessage(service.stats()),
      observe(request) {
        for (const note of notesFromMessage(request)) service.hear(note);
        return {};
      },
    });
  };
}

/** What `Match` is asked. */
export interface MatchAsk {
  readonly model: string;
  readonly root: string;
  readonly prompt: Uint8Array;
  /** Instead of `prompt`. */
  readonly tokenIds: TokenIds;
}

/** Answer `Match`. @throws ConnectError */
export async function answerMatch(service: KvService, ask: MatchAsk): Promise<WorkerMatch[]> {
  checkMatch(service, ask);
  try {
    const { model, root, tokenIds } = ask;
    const prompt = tokenIds.length > 0 ? await service.decodePrompt(model, tokenIds) : ask.prompt;
    checkLength(prompt);
    const matches = await service.match({ model, root, prompt });
    return matches.map((match) => ({ ...match }));
  } catch (error) {
    throw asConnectError(error);
  }
}

function checkMatch(service: KvService, { model, prompt, tokenIds }: MatchAsk): void {
  if (model === "")
    throw new ConnectError('Cannot match: model is missing. Send its name in "model"', Code.InvalidArgument);
  if (prompt.length > 0 && tokenIds.length > 0) {
    throw new ConnectError("Cannot match: both prompt and tokenIds are there. Send one", Code.InvalidArgument);
  }
  if (service.knowsModel(model)) return;
  throw new ConnectError(`Cannot match: no worker serves "${model}". Look at cgn kv sources`, Code.NotFound);
}

function checkLength({ length }: Uint8Array): void {
  if (length <= MAX_PROMPT_BYTES) return;
  const message = `Cannot match a prompt of ${length} bytes: at most ${MAX_PROMPT_BYTES} are taken. Send its beginning`;
  throw new ConnectError(message, Code.ResourceExhausted);
}

/** What went wrong, as the wire says it; what is not known stays as it is. */
export function asConnectError(error: unknown): unknown {
  if (!isCgnError(error)) return error;
  const code = CONNECT_CODES[error.code];
  return code === undefined ? error : new ConnectError(error.message, code);
}

const CONNECT_CODES: Readonly<Partial<Record<CgnCode, Code>>> = {
  OVERLOADED: Code.ResourceExhausted,
  REQUEST_TOO_LARGE: Code.ResourceExhausted,
  REQUEST_INVALID: Code.InvalidArgument,
  MODEL_NOT_FOUND: Code.NotFound,
  DEPENDENCY_UNREACHABLE: Code.Unavailable,
};
