import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { isCgnError } from "../core/errors.ts";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { KvSourceStatus, KvStats } from "../core/kv-status.ts";
import type { Outcome, PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { type ObserveRequest, PrefixIndex, type Source, SourceSchema } from "./gen/cgn/kv/v1/kv_pb.ts";
import { watchValues } from "./watch-values.ts";
import { workerFromMessage } from "./worker-message.ts";

/** What stands behind the `cgn.kv.v1.PrefixIndex` service. */
export interface KvService extends PrefixKnowledge {
  register(worker: WorkerInfo): void;
  unregister(id: WorkerId): void;
  sources(): readonly KvSourceStatus[];
  stats(): KvStats;
  /** Called after each change of a source; the result ends it. */
  onChange(listener: () => void): () => void;
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
      async *watch(_request, context) {
        for await (const version of watchValues((listener) => service.onChange(listener), context.signal)) {
          yield { version: BigInt(version), sources: service.sources().map(sourceToMessage) };
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
      stats() {
        return Object.fromEntries(
          Object.entries(service.stats()).map(([key, value]) => [key, BigInt(Math.round(value))]),
        );
      },
      observe(request) {
        const { model, root, prompt } = request;
        if (request.sent) service.sent(workerId(request.worker), { model, root, prompt });
        else if (request.unsent) service.unsent?.(workerId(request.worker), { model, root, prompt });
        else service.observe(outcomeOf(request));
        return {};
      },
    });
  };
}

function outcomeOf(request: ObserveRequest): Outcome {
  return {
    worker: workerId(request.worker),
    epoch: request.epoch,
    model: request.model,
    root: request.root,
    prompt: request.prompt,
    predictedTokens: request.predictedTokens,
    ...(request.answer === undefined ? {} : { answer: request.answer }),
    ...(request.promptTokens === undefined ? {} : { promptTokens: request.promptTokens }),
    ...(request.completionTokens === undefined ? {} : { completionTokens: request.completionTokens }),
    ...(request.cachedTokens === undefined ? {} : { cachedTokens: request.cachedTokens }),
  };
}

function sourceToMessage(status: KvSourceStatus): Source {
  return create(SourceSchema, {
    worker: status.worker,
    model: status.model,
    type: status.type,
    state: status.state,
    detail: status.detail,
    events: BigInt(status.events),
    blocksStored: BigInt(status.blocksStored),
    blocksRemoved: BigInt(status.blocksRemoved),
    gaps: BigInt(status.gaps),
    restarts: BigInt(status.restarts),
    malformed: BigInt(status.malformed),
    lastSequence: BigInt(status.lastSequence),
    predictedTokens: BigInt(status.predictedTokens),
    reportedTokens: BigInt(status.reportedTokens),
    parity: status.parity,
  });
}
