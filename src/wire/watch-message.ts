import { create } from "@bufbuild/protobuf";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import { type Delta, type WatchRequest, type WatchResponse, WatchResponseSchema } from "./gen/cgn/kv/v1/kv_pb.ts";
import {
  deltaFromMessage,
  type KvDelta,
  type WatchedWorker,
  watchedFromMessage,
  watchedToMessage,
} from "./kv-delta.ts";
import { sourceFromMessage, sourceToMessage } from "./source-message.ts";

/** A change as it goes over the wire: written once for all watchers. */
export type EncodedDelta = Delta;

/** What a watcher asks for. */
export interface WatchAsk {
  /** Name of the watcher. */
  readonly watcher: string;
  /** Where it stands; undefined: it has nothing. */
  readonly from?: { readonly instance: string; readonly version: number };
  /** Only the sources' state. */
  readonly sourcesOnly: boolean;
}

/** Part of a snapshot, or changes. */
export type WatchPart<D> =
  | { readonly type: "begin"; readonly seed: number }
  | { readonly type: "worker"; readonly worker: WatchedWorker }
  | { readonly type: "chunk"; readonly worker: WorkerId; readonly data: Uint8Array }
  | { readonly type: "end" }
  | { readonly type: "deltas"; readonly deltas: readonly D[] };

/** One message of a watch; without a part it only says that the stream lives, or how the sources are. */
export interface WatchMessage<D> {
  readonly instance: string;
  readonly version: number;
  readonly sources?: readonly KvSourceStatus[];
  readonly part?: WatchPart<D>;
}

export function askFromMessage({ watcher, instance, version, sourcesOnly }: WatchRequest): WatchAsk {
  return { watcher, sourcesOnly, ...(instance === "" ? {} : { from: { instance, version: Number(version) } }) };
}

export function watchToMessage(message: WatchMessage<EncodedDelta>): WatchResponse {
  return create(WatchResponseSchema, {
    instance: message.instance,
    version: BigInt(message.version),
    sources: message.sources?.map(sourceToMessage) ?? [],
    ...(message.part === undefined ? {} : { part: partToMessage(message.part) }),
  });
}

function partToMessage(part: WatchPart<EncodedDelta>): NonNullable<WatchResponse["part"]> {
  switch (part.type) {
    case "begin":
      return { case: "begin", value: { $typeName: "cgn.kv.v1.SnapshotBegin", seed: part.seed } };
    case "worker":
      return { case: "worker", value: watchedToMessage(part.worker) };
    case "chunk":
      return { case: "chunk", value: { $typeName: "cgn.kv.v1.SnapshotChunk", worker: part.worker, data: part.data } };
    case "end":
      return { case: "end", value: { $typeName: "cgn.kv.v1.SnapshotEnd" } };
    case "deltas":
      return { case: "deltas", value: { $typeName: "cgn.kv.v1.Deltas", deltas: [...part.deltas] } };
  }
}

/** @throws CgnError REQUEST_INVALID for a worker that makes no sense */
export function watchFromMessage(message: WatchResponse): WatchMessage<KvDelta> {
  const part = partFromMessage(message.part);
  return {
    instance: message.instance,
    version: Number(message.version),
    ...(message.sources.length === 0 ? {} : { sources: message.sources.map(sourceFromMessage) }),
    ...(part === undefined ? {} : { part }),
  };
}

function partFromMessage(part: WatchResponse["part"]): WatchPart<KvDelta> | undefined {
  switch (part.case) {
    case "begin":
      return { type: "begin", seed: part.value.seed };
    case "worker":
      return { type: "worker", worker: watchedFromMessage(part.value) };
    case "chunk":
      return { type: "chunk", worker: workerId(part.value.worker), data: part.value.data };
    case "end":
      return { type: "end" };
    case "deltas":
      return { type: "deltas", deltas: part.value.deltas.map(deltaFromMessage) };
    default:
      return undefined;
  }
}
