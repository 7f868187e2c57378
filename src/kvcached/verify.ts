import { CgnError } from "../core/errors.ts";
import { workerId } from "../core/ids.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import type { PrefixIndex } from "../kvindex/prefix-index.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";
import type { Capture, FrameRow, RequestRow } from "./capture-rows.ts";
import { bytesOf } from "./redact-blocks.ts";
import { initialSource, type SourceInput, type SourceState } from "./source-state.ts";
import { stepSource } from "./source-step.ts";
import type { ModelText } from "./vocabularies.ts";

/** How good the predictions of a capture were. */
export interface VerifyReport {
  /** Requests whose engine reported cached tokens. */
  readonly requests: number;
  readonly exact: number;
  /** Misses whose cause the capture shows: a reset or a restart that the engine had not yet published. */
  readonly explained: number;
  readonly missed: readonly VerifyMiss[];
}

export interface VerifyMiss {
  readonly n: number;
  readonly predicted: number;
  readonly reported: number;
  readonly reason: string;
}

export interface VerifyOptions {
  readonly capture: Capture;
  /** `REDACTED_VOCABULARY` and no renderer for a capture without content. */
  readonly text: { readonly vocabulary: Pick<Vocabulary, "decodeBlocks">; readonly renderer: ModelText["renderer"] };
  /** The engine's decoder. */
  readonly decode: (payload: Uint8Array) => KvEventBatch;
  /** An empty index. */
  readonly index: PrefixIndex;
  /** Tell restarts and resets to the source when they happened, as the agent would. */
  readonly agentNotices: boolean;
}

type Row = (FrameRow & { readonly kind: "frame" }) | RequestRow;

/**
 * Replay a capture in the order of its times: events through the source's state machine into the index, and before each
 * request the very match that a router would ask for (the rendered prompt; nothing is tokenised), compared with what the
 * engine then reported.
 * @throws CgnError CAPTURE_INVALID when a chat cannot be rendered, or no request has a reported figure
 */
export function verifyCapture(options: VerifyOptions): VerifyReport {
  const { capture, index, text, agentNotices } = options;
  const slot = index.addWorker(workerId("capture"));
  const rows: Row[] = [...capture.frames.map((row) => ({ kind: "frame" as const, ...row })), ...capture.requests];
  // Stable: of equal times, frames come first.
  rows.sort((a, b) => a.t - b.t);
  const start = rows[0]?.t ?? 0;
  let state: SourceState = initialSource(false, 0);
  const feed = (input: SourceInput, t: number) => {
    const [next, ...effects] = stepSource(state, input, (t - start) * 1000);
    state = next;
    for (const effect of effects) {
      if (effect.do === "clear") index.clearWorker(slot);
      else if (effect.do === "apply")
        applyEvents(index, slot, effect.batch, (ids, n) => text.vocabulary.decodeBlocks(ids, n));
    }
  };
  feed({ type: "connected" }, start);
  const chats = chatsOf(capture.requests);
  const missed: VerifyMiss[] = [];
  let [requests, explained, phases] = [0, 0, 0];
  /** Something emptied the cache and the engine has not published since. */
  let unpublished = "";
  const notice = (what: "restarted" | "reset", t: number, why: string) => {
    if (agentNotices) {
      feed({ type: "notice", what }, t);
      index.clearWorker(slot);
    } else unpublished = why;
  };
  for (const row of rows) {
    if (row.kind === "frame") {
      unpublished = "";
      feed({ type: "live", seq: row.seq, batch: row.batch ?? decoded(options.decode, row.payload) }, row.t);
    } else if (row.kind === "phase") {
      if (phases++ > 0) notice("restarted", row.t, "the engine was restarted and had not yet published anything");
    } else if (row.kind === "reset_prefix_cache") {
      notice("reset", row.t, "the cache was reset, which the engine publishes only with its next step");
    } else if (row.kind === "begin") {
      const chat = chats.get(row.n);
      if (chat?.cachedTokens === undefined) continue;
      requests++;
      const predicted = predict(index, text, chat, row.n);
      if (predicted === chat.cachedTokens) continue;
      if (unpublished !== "") explained++;
      const reason =
        unpublished !== "" ? unpublished : `not explained by the capture (source: ${state.at} ${state.detail})`.trim();
      missed.push({ n: row.n, predicted, reported: chat.cachedTokens, reason });
    }
  }
  index.dropWorker(slot);
  if (requests === 0) {
    const right = "Capture with an engine that reports prompt_tokens_details.cached_tokens";
    throw new CgnError("CAPTURE_INVALID", `Cannot verify capture: no request has reported cached tokens. ${right}`, {});
  }
  return { requests, exact: requests - missed.length, explained, missed };
}

type Chat = Extract<RequestRow, { kind: "chat" }>;

/** Chats by number; those without one belong to the `begin` before them. */
function chatsOf(requests: readonly RequestRow[]): ReadonlyMap<number, Chat> {
  const chats = new Map<number, Chat>();
  let last: number | undefined;
  for (const row of requests) {
    if (row.kind === "begin") last = row.n;
    const n = row.kind === "chat" ? (row.n ?? last) : undefined;
    if (row.kind === "chat" && n !== undefined) chats.set(n, row);
  }
  return chats;
}

function predict(index: PrefixIndex, text: VerifyOptions["text"], chat: Chat, n: number): number {
  const events = (root: string, bytes: Uint8Array) =>
    index.match(root, bytes).find((m) => m.source === "events")?.tokens ?? 0;
  if (chat.prompt !== undefined) {
    const { blocks, rest, salt } = chat.prompt;
    return events(rootKey("", salt), bytesOf(blocks, rest));
  }
  const body = chat.body ?? {};
  const prompt = text.renderer?.render(body) ?? { reason: "the model has no chat template" };
  if (!("bytes" in prompt)) {
    const message = `Cannot render chat ${n} of the capture: ${prompt.reason}. Name the model's folder`;
    throw new CgnError("CAPTURE_INVALID", message, { n });
  }
  const salt = body["cache_salt"];
  return events(rootKey("", typeof salt === "string" ? salt : ""), prompt.bytes);
}

function decoded(decode: VerifyOptions["decode"], payload: Uint8Array | undefined): KvEventBatch | undefined {
  if (payload === undefined) return undefined;
  try {
    return decode(payload);
  } catch {
    return undefined;
  }
}
