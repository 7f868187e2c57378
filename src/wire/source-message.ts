import { create } from "@bufbuild/protobuf";
import { workerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import { type Source, SourceSchema } from "./gen/cgn/kv/v1/kv_pb.ts";
import { truthFromMessage, truthToMessage } from "./truth-message.ts";

/** Write the state of one worker's source. */
export function sourceToMessage(status: KvSourceStatus): Source {
  return create(SourceSchema, {
    worker: status.worker,
    model: status.model,
    type: status.type,
    state: status.state,
    detail: status.detail,
    events: BigInt(status.events),
    blocks: BigInt(status.blocks),
    blocksStored: BigInt(status.blocksStored),
    blocksRemoved: BigInt(status.blocksRemoved),
    gaps: BigInt(status.gaps),
    restarts: BigInt(status.restarts),
    malformed: BigInt(status.malformed),
    lastSequence: BigInt(status.lastSequence),
    predictedTokens: BigInt(status.predictedTokens),
    reportedTokens: BigInt(status.reportedTokens),
    parity: status.parity,
    origin: status.origin ?? "",
    ...truthToMessage(status),
  });
}

export function sourceFromMessage(source: Source): KvSourceStatus {
  return {
    worker: workerId(source.worker),
    model: source.model,
    type: source.type === "events" ? "events" : "history",
    state: source.state as KvSourceStatus["state"],
    detail: source.detail,
    events: Number(source.events),
    blocks: Number(source.blocks),
    blocksStored: Number(source.blocksStored),
    blocksRemoved: Number(source.blocksRemoved),
    gaps: Number(source.gaps),
    restarts: Number(source.restarts),
    malformed: Number(source.malformed),
    lastSequence: Number(source.lastSequence),
    predictedTokens: Number(source.predictedTokens),
    reportedTokens: Number(source.reportedTokens),
    parity: source.parity,
    ...(source.origin === "" ? {} : { origin: source.origin }),
    ...truthFromMessage(source),
  };
}
