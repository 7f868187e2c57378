import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { BlockName, BlockNames, Tier } from "../core/kv-event.ts";
import type { WorkerInfo } from "../core/worker.ts";
import {
  type Delta,
  DeltaSchema,
  type WatchedWorker as WatchedWorkerMessage,
  WatchedWorkerSchema,
  WorkerSchema,
} from "./gen/cgn/kv/v1/kv_pb.ts";
import { type KvNote, noteFromMessage, noteToMessage } from "./kv-note.ts";
import { packEnds, packNames, unpackEnds, unpackNames } from "./packed-numbers.ts";
import { workerFromMessage, workerToMessage } from "./worker-message.ts";

/** How a worker is known. `unproved`: by a file that the engine has not confirmed yet; it does not count. */
export type KnownBy = "events" | "history" | "unproved";

/** How well a worker is known. */
export interface Knowledge {
  readonly knownBy: KnownBy;
  /** What the engine reports as cached is a multiple of so many tokens; 1 for most. */
  readonly alignTokens: number;
}

/** A worker as its watchers need it. */
export interface WatchedWorker extends Knowledge {
  readonly info: WorkerInfo;
  /** Prompts of its that are kept. */
  readonly historyEntries: number;
  /** State of its history source, where it has one; contains the notes up to `historyVersion`. */
  readonly history?: Uint8Array;
  readonly historyVersion: number;
}

/** A chain of blocks that found its place; as `StoredBlocks` of the index. */
export interface StoredChain {
  readonly root: string;
  readonly parent: BlockName | undefined;
  readonly names: BlockNames;
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
  readonly blockTokens: number;
  readonly tier: Tier;
}

/** One change of what is known, as watchers apply it to their copy. */
export type KvDelta = { readonly worker: WorkerId } & (
  | { readonly type: "followed"; readonly as: WatchedWorker }
  | { readonly type: "dropped" }
  | { readonly type: "cleared" }
  | { readonly type: "stored"; readonly blocks: StoredChain }
  | { readonly type: "removed"; readonly names: BlockNames; readonly tier: Tier | undefined }
  | { readonly type: "counted"; readonly names: BlockNames; readonly counted: boolean }
  /** `since`: a version; what was stored after it is left alone. */
  | {
      readonly type: "corrected";
      readonly root: string;
      readonly prompt: Uint8Array;
      readonly tokens: number;
      readonly since: number;
    }
  | ({ readonly type: "knowledge" } & Knowledge)
  | { readonly type: "note"; readonly note: KvNote }
  /** Of a later version of cgn. */
  | { readonly type: "unknown" }
);

/** Write a change. All that it holds is copied or was made for it: the sender may use its buffers again. */
export function deltaToMessage(delta: KvDelta): Delta {
  return create(DeltaSchema, { worker: delta.worker, change: changeToMessage(delta) });
}

function changeToMessage(delta: KvDelta): NonNullable<MessageInitShape<typeof DeltaSchema>["change"]> {
  switch (delta.type) {
    case "followed":
      return { case: "followed", value: watchedToMessage(delta.as) };
    case "dropped":
      return { case: "dropped", value: true };
    case "cleared":
      return { case: "cleared", value: true };
    case "stored":
      return { case: "stored", value: storedToMessage(delta.blocks) };
    case "removed":
      return { case: "removed", value: { names: packNames(delta.names), tier: delta.tier ?? "" } };
    case "counted":
      return { case: "counted", value: { names: packNames(delta.names), counted: delta.counted } };
    case "corrected": {
      const { root, prompt, tokens, since } = delta;
      return { case: "corrected", value: { root, prompt: new Uint8Array(prompt), tokens, since: BigInt(since) } };
    }
    case "knowledge":
      return { case: "knowledge", value: { knownBy: delta.knownBy, alignTokens: delta.alignTokens } };
    case "note":
      return { case: "note", value: noteToMessage(delta.note) };
    case "unknown":
      return { case: undefined };
  }
}

function storedToMessage({ root, parent, names, bytes, ends, blockTokens, tier }: StoredChain) {
  const count = Math.min(names.length, ends.length);
  return {
    root,
    ...(parent === undefined ? {} : { parent, hasParent: true }),
    names: packNames(names),
    // Not `slice()`: a Node Buffer, which is a Uint8Array too, would give a view.
    bytes: new Uint8Array(bytes.subarray(0, count === 0 ? 0 : ends[count - 1])),
    ends: packEnds(ends, count),
    blockTokens,
    tier,
  };
}

/** Read a change. @throws CgnError REQUEST_INVALID for a wrong worker */
export function deltaFromMessage(message: Delta): KvDelta {
  const worker = workerId(message.worker);
  const { change } = message;
  switch (change.case) {
    case "followed":
      return { worker, type: "followed", as: watchedFromMessage(change.value) };
    case "dropped":
    case "cleared":
      return { worker, type: change.case };
    case "stored": {
      const { root, parent, hasParent, names, bytes, ends, blockTokens, tier } = change.value;
      const blocks: StoredChain = {
        root,
        parent: hasParent ? parent : undefined,
        names: unpackNames(names),
        bytes,
        ends: unpackEnds(ends),
        blockTokens,
        tier: tier as Tier,
      };
      return { worker, type: "stored", blocks };
    }
    case "removed": {
      const { names, tier } = change.value;
      return { worker, type: "removed", names: unpackNames(names), tier: tier === "" ? undefined : (tier as Tier) };
    }
    case "counted":
      return { worker, type: "counted", names: unpackNames(change.value.names), counted: change.value.counted };
    case "corrected": {
      const { root, prompt, tokens, since } = change.value;
      return { worker, type: "corrected", root, prompt, tokens, since: Number(since) };
    }
    case "knowledge":
      return { worker, type: "knowledge", ...knowledgeOf(change.value) };
    case "note":
      return { worker, type: "note", note: noteFromMessage(change.value) };
    default:
      return { worker, type: "unknown" };
  }
}

export function watchedToMessage(worker: WatchedWorker): WatchedWorkerMessage {
  return create(WatchedWorkerSchema, {
    worker: workerToMessage(worker.info),
    knownBy: worker.knownBy,
    alignTokens: worker.alignTokens,
    historyEntries: worker.historyEntries,
    history: worker.history ?? new Uint8Array(),
    historyVersion: BigInt(worker.historyVersion),
  });
}

/** @throws CgnError REQUEST_INVALID */
export function watchedFromMessage(message: WatchedWorkerMessage): WatchedWorker {
  return {
    info: workerFromMessage(message.worker ?? create(WorkerSchema)),
    ...knowledgeOf(message),
    historyEntries: message.historyEntries,
    ...(message.history.length === 0 ? {} : { history: message.history }),
    historyVersion: Number(message.historyVersion),
  };
}

function knowledgeOf({ knownBy, alignTokens }: { knownBy: string; alignTokens: number }): Knowledge {
  return { knownBy: knownBy as KnownBy, alignTokens: Math.max(1, alignTokens) };
}
