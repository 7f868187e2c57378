import { create } from "@bufbuild/protobuf";
import type { WorkerId } from "../core/ids.ts";
import { workerId } from "../core/ids.ts";
import type { MatchQuery, Outcome } from "../core/prefix-knowledge.ts";
import { type ObserveRequest, ObserveRequestSchema } from "./gen/cgn/kv/v1/kv_pb.ts";

/** What a router did, or what came of it. */
export type KvNote = {
  /** Who watches and says it, with its own number of the note: it skips the echo. Undefined: nobody who watches. */
  readonly origin?: { readonly watcher: string; readonly note: number };
} & (
  | { readonly type: "sent" | "unsent"; readonly worker: WorkerId; readonly query: MatchQuery }
  | { readonly type: "observed"; readonly worker: WorkerId; readonly outcome: Outcome }
);

/** Write notes as one message; at least one. */
export function notesToMessage(notes: readonly KvNote[]): ObserveRequest {
  const [first, ...more] = notes.map(noteToMessage);
  if (first === undefined) throw new RangeError("Cannot send notes: there are none. Give at least one");
  first.more = more;
  return first;
}

/** Read the notes of a message, in their order. */
export function notesFromMessage(message: ObserveRequest): readonly KvNote[] {
  return [noteFromMessage(message), ...message.more.map(noteFromMessage)];
}

export function noteToMessage(note: KvNote): ObserveRequest {
  const origin = note.origin === undefined ? {} : { watcher: note.origin.watcher, note: BigInt(note.origin.note) };
  const { worker } = note;
  if (note.type === "observed") return create(ObserveRequestSchema, { ...note.outcome, worker, ...origin });
  const what = note.type === "sent" ? { sent: true } : { unsent: true };
  return create(ObserveRequestSchema, { ...note.query, worker, ...what, ...origin });
}

export function noteFromMessage(message: ObserveRequest): KvNote {
  const { model, root, prompt } = message;
  const worker = workerId(message.worker);
  const origin = message.watcher === "" ? {} : { origin: { watcher: message.watcher, note: Number(message.note) } };
  if (message.sent || message.unsent) {
    return { type: message.sent ? "sent" : "unsent", worker, query: { model, root, prompt }, ...origin };
  }
  return { type: "observed", worker, outcome: outcomeOf(message), ...origin };
}

function outcomeOf(message: ObserveRequest): Outcome {
  return {
    worker: workerId(message.worker),
    epoch: message.epoch,
    model: message.model,
    root: message.root,
    prompt: message.prompt,
    predictedTokens: message.predictedTokens,
    ...(message.answer === undefined ? {} : { answer: message.answer }),
    ...(message.promptTokens === undefined ? {} : { promptTokens: message.promptTokens }),
    ...(message.completionTokens === undefined ? {} : { completionTokens: message.completionTokens }),
    ...(message.cachedTokens === undefined ? {} : { cachedTokens: message.cachedTokens }),
  };
}
