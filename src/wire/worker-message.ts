import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ENGINE_KINDS, ROLES } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type {
  KvSource,
  SlotRules,
  SourceOrigin,
  TokenizerSource,
  WorkerInfo,
  WorkerState,
  WorkerTraits,
} from "../core/worker.ts";
import {
  type Figures as FiguresMessage,
  FiguresSchema,
  type Relay as RelayMessage,
  RelaySchema,
  type SlotRules as SlotRulesMessage,
  SlotRulesSchema,
  type Worker,
  WorkerSchema,
} from "./gen/cgn/kv/v1/kv_pb.ts";
import { handOverFromMessage, handOverToMessage } from "./hand-over-message.ts";

const STATES: readonly WorkerState[] = ["starting", "ready", "draining", "down", "unloaded", "asleep"];
const ORIGINS: readonly SourceOrigin[] = ["configuration", "agent", "engine"];
/** Far above what a server has: each costs memory here. */
const MAX_SLOTS = 4096;
/** Traits that are texts go as `NAME=` and the text. */
const TEXTS = [
  "textPartsJoin",
  "rankHeader",
  "rankMember",
  "adapterJoin",
] as const satisfies readonly (keyof WorkerTraits)[];
/** Lists of words go in the same way, with blanks between. */
const LISTS = ["lacks"] as const satisfies readonly (keyof WorkerTraits)[];
/** Traits that hold or do not. */
type Flag = Exclude<keyof WorkerTraits, (typeof TEXTS)[number] | (typeof LISTS)[number]>;

/** A list that the compiler holds complete: the wire carries the names of the traits that hold. */
const FLAGS = Object.keys({
  reportsCachedTokens: 0,
  usageOnlyWhenAsked: 0,
  foldNonStreaming: 0,
  stripKvTransferParams: 0,
  ignoresModelName: 0,
  closesConnections: 0,
  tokenizesChats: 0,
  sparseResponseEvents: 0,
  lacksLogprobs: 0,
  servesWhole: 0,
} satisfies Required<Record<Flag, 0>>) as Flag[];

/** Write a worker for the wire. Absent values become proto3 defaults. */
export function workerToMessage(worker: WorkerInfo): Worker {
  const { kv, tokenizer } = worker;
  return create(WorkerSchema, {
    id: worker.id,
    node: worker.node,
    kind: worker.kind,
    url: worker.url,
    models: [...worker.models],
    adapters: [...(worker.adapters ?? [])],
    upstreamModel: worker.upstreamModel ?? "",
    role: worker.role,
    blockTokens: worker.blockTokens ?? 0,
    source: kv.type,
    ...(kv.type === "events"
      ? {
          eventsEndpoint: kv.endpoint,
          replayEndpoint: kv.replay ?? "",
          topic: kv.topic,
          dpRank: kv.dpRank,
          sourceOrigin: kv.origin ?? "",
        }
      : {
          dpRank: worker.rank?.index ?? 0,
          historyEntries: kv.entries,
          minTokens: kv.minTokens ?? 0,
          ...(kv.slots === undefined ? {} : { slots: create(SlotRulesSchema, { ...kv.slots }) }),
        }),
    dpRanks: worker.rank?.of ?? 0,
    tokenizerDir: tokenizer.dir ?? "",
    gguf: tokenizer.gguf ?? "",
    byteVocabulary: tokenizer.bytes ?? false,
    state: worker.state,
    reason: worker.reason,
    epoch: worker.epoch,
    watched: worker.watched ?? false,
    maxModelTokens: worker.maxModelTokens ?? 0,
    traits: namesOf(worker.traits),
    alive: worker.alive ?? false,
    onDemand: worker.onDemand ?? false,
    returns: worker.returns ?? false,
    ...(worker.handOver === undefined ? {} : { handOver: handOverToMessage(worker.handOver) }),
    ...(worker.relay === undefined ? {} : { relay: create(RelaySchema, { ...worker.relay }) }),
    ...(worker.figures === undefined ? {} : { figures: create(FiguresSchema, { ...worker.figures }) }),
  });
}

/**
 * Read a worker from the wire. Traits that this version does not know are left out.
 * @throws CgnError REQUEST_INVALID naming the field that is wrong
 */
export function workerFromMessage(message: Worker): WorkerInfo {
  if (message.id === "") throw invalid("id", message.id, "a name that is unique in the cluster");
  return {
    id: workerId(message.id),
    node: nodeId(message.node),
    kind: oneOf(ENGINE_KINDS, "kind", message.kind),
    traits: traitsOf(message.traits),
    url: urlOf(message.url),
    models: message.models,
    ...(message.adapters.length === 0 ? {} : { adapters: message.adapters }),
    ...(message.upstreamModel === "" ? {} : { upstreamModel: message.upstreamModel }),
    role: message.role === "" ? "both" : oneOf(ROLES, "role", message.role),
    ...(message.blockTokens === 0 ? {} : { blockTokens: message.blockTokens }),
    kv: kvOf(message),
    ...(message.dpRanks < 2 ? {} : { rank: { index: message.dpRank, of: message.dpRanks } }),
    tokenizer: tokenizerOf(message),
    state: message.state === "" ? "ready" : oneOf(STATES, "state", message.state),
    reason: message.reason,
    ...(message.alive ? { alive: true } : {}),
    epoch: message.epoch,
    ...(message.watched ? { watched: true } : {}),
    ...(message.onDemand ? { onDemand: true } : {}),
    ...(message.returns ? { returns: true } : {}),
    ...(message.maxModelTokens === 0 ? {} : { maxModelTokens: message.maxModelTokens }),
    ...(message.handOver === undefined ? {} : { handOver: handOverFromMessage(message.handOver) }),
    ...relayOf(message.relay),
    ...figuresOf(message.figures),
  };
}

/** A path that leads to another host's name is none. */
function relayOf(relay: RelayMessage | undefined): Pick<WorkerInfo, "relay"> {
  if (relay === undefined) return {};
  const { path, always } = relay;
  if (!/^\/[\w%.~/-]+$/.test(path) || path.startsWith("//")) {
    throw invalid("relay.path", path, 'a path such as "/cgn/relay/n%2Fm"');
  }
  return { relay: { path, always } };
}

function figuresOf(figures: FiguresMessage | undefined): Pick<WorkerInfo, "figures"> {
  if (figures === undefined) return {};
  const { powerHeadroom, powerWatts, kvFree } = figures;
  const all = Object.entries({ powerHeadroom, powerWatts, kvFree }).filter(([, value]) => Number.isFinite(value));
  return { figures: Object.fromEntries(all) };
}

function kvOf(message: Worker): KvSource {
  const type = message.source === "" ? "history" : oneOf(["events", "history"] as const, "source", message.source);
  if (type === "history") return historyOf(message);
  if (message.eventsEndpoint === "") {
    throw invalid("events_endpoint", "", 'a ZMQ address such as "tcp://127.0.0.1:5557", or source "history"');
  }
  return {
    type,
    endpoint: zmqOf("events_endpoint", message.eventsEndpoint),
    ...(message.replayEndpoint === "" ? {} : { replay: zmqOf("replay_endpoint", message.replayEndpoint) }),
    topic: message.topic,
    dpRank: message.dpRank,
    ...(message.sourceOrigin === "" ? {} : { origin: oneOf(ORIGINS, "source_origin", message.sourceOrigin) }),
  };
}

/** A ZMQ address that can be connected to: `tcp://HOST:PORT` or `ipc://PATH`. */
function zmqOf(field: string, text: string): string {
  const [, port] = /^tcp:\/\/(?:[\w.-]+|\[[\da-f:.%\w]+\]):(\d{1,5})$/i.exec(text) ?? [];
  if (/^ipc:\/\/./.test(text) || (Number(port) >= 1 && Number(port) <= 65_535)) return text;
  throw invalid(field, text, 'a ZMQ address such as "tcp://127.0.0.1:5557", with a port of 1 to 65535');
}

/** "" where there is none to ask. */
function urlOf(text: string): string {
  if (text === "" || (/^https?:\/\//i.test(text) && URL.canParse(text))) return text;
  throw invalid("url", text, 'the engine\'s address, such as "http://127.0.0.1:8000"');
}

function historyOf({ historyEntries, minTokens, slots }: Worker): KvSource {
  return {
    type: "history",
    entries: historyEntries === 0 ? 16 : historyEntries,
    ...(minTokens === 0 ? {} : { minTokens }),
    ...(slots === undefined ? {} : { slots: slotsOf(slots) }),
  };
}

function slotsOf({ count, minShare, storeTokens, emptiesFree, savesFree }: SlotRulesMessage): SlotRules {
  if (count > MAX_SLOTS) throw invalid("slots.count", String(count), `at most ${MAX_SLOTS}`);
  return { count, minShare, storeTokens, emptiesFree, ...(savesFree ? { savesFree } : {}) };
}

function tokenizerOf(message: Worker): TokenizerSource {
  return {
    ...(message.tokenizerDir === "" ? {} : { dir: message.tokenizerDir }),
    ...(message.gguf === "" ? {} : { gguf: message.gguf }),
    ...(message.byteVocabulary ? { bytes: true } : {}),
  };
}

function namesOf(traits: WorkerTraits): string[] {
  const flags: string[] = FLAGS.filter((flag) => traits[flag] === true);
  const texts = TEXTS.flatMap((name) => (traits[name] === undefined ? [] : [`${name}=${traits[name]}`]));
  const lists = LISTS.flatMap((name) => (traits[name] === undefined ? [] : [`${name}=${traits[name].join(" ")}`]));
  return [...flags, ...texts, ...lists];
}

function traitsOf(names: readonly string[]): WorkerTraits {
  const said = (trait: string): string | undefined =>
    names.find((name) => name.startsWith(`${trait}=`))?.slice(trait.length + 1);
  const texts = TEXTS.flatMap((trait) => {
    const text = said(trait);
    return text === undefined ? [] : [[trait, text] as const];
  });
  const lists = LISTS.flatMap((trait) => {
    const text = said(trait);
    return text === undefined ? [] : [[trait, text.split(" ").filter((word) => word !== "")] as const];
  });
  return {
    ...Object.fromEntries(FLAGS.filter((flag) => names.includes(flag)).map((flag) => [flag, true])),
    ...Object.fromEntries(texts),
    ...Object.fromEntries(lists),
  };
}

function oneOf<T extends string>(allowed: readonly T[], field: string, text: string): T {
  const found = allowed.find((name) => name === text);
  if (found === undefined) throw invalid(field, text, `one of ${allowed.join(", ")}`);
  return found;
}

function invalid(field: string, text: string, right: string): CgnError {
  return new CgnError("REQUEST_INVALID", `Cannot read worker: ${field} is "${text}". Send ${right}`, {
    field,
  }) as CgnError;
}

/** A worker as bytes, for files. */
export function workerToBytes(worker: WorkerInfo): Uint8Array {
  return toBinary(WorkerSchema, workerToMessage(worker));
}

/** @throws CgnError REQUEST_INVALID, or Error for bytes that are no message */
export function workerFromBytes(bytes: Uint8Array): WorkerInfo {
  return workerFromMessage(fromBinary(WorkerSchema, bytes));
}
