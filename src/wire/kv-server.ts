import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { isCgnError } from "../core/errors.ts";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { KvSourceStatus, KvStats } from "../core/kv-status.ts";
import type { PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { PrefixIndex } from "./gen/cgn/kv/v1/kv_pb.ts";
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

/** What stands behind the `cgn.kv.v1.PrefixIndex` service. */
export interface KvService extends PrefixKnowledge {
  register(worker: WorkerInfo): void;
  unregister(id: WorkerId): void;
  sources(): readonly KvSourceStatus[];
  stats(): KvStats;
  /** `sent`, `unsent` and `observe`, with who says it. */
  hear(note: KvNote): void;
  /**
   * Everything that is known, then each change; it ends with `signal`.
   * @throws CgnError OVERLOADED when the watcher takes its messages too slowly
   */
  watch(ask: WatchAsk, signal: AbortSignal): AsyncIterable<WatchMessage<EncodedDelta>>;
  /** `match` for a prompt of token ids; undefined when the model's vocabulary is not known. */
  decodePrompt(model: string, tokenIds: readonly number[]): Uint8Array | undefined;
}

/** The routes of `cgn.kv.v1.PrefixIndex`. */
export function kvRoutes(service: KvService): (router: ConnectRouter) => void {
  return (router) => {
    router.service(PrefixIndex, {
      async match(request) {
        const prompt =
          request.tokenIds.length > 0 ? service.decodePrompt(request.model, request.tokenIds) : request.prompt;
        if (prompt === undefined) return { matches: [] };
        const matches = await service.match({ model: request.model, root: request.root, prompt });
        return { matches: matches.map((m: WorkerMatch) => ({ ...m })) };
      },
      async *watch(request, context) {
        try {
          for await (const message of service.watch(askFromMessage(request), context.signal))
            yield watchToMessage(message);
        } catch (error) {
          if (isCgnError(error, "OVERLOADED")) throw new ConnectError(error.message, Code.ResourceExhausted);
          throw error;
        }
      },
      register(request) {
        if (request.worker === undefined) throw new ConnectError("worker is missing", Code.InvalidArgument);
        try {
          service.register(workerFromMessage(request.worker));
        } catch (error) {
          if (isCgnError(error, "REQUEST_INVALID")) throw new ConnectError(error.message, Code.InvalidArgument);
          throw error;
        }
        return {};
      },
      unregister(request) {
        service.unregister(workerId(request.worker));
        return {};
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
