import { CgnError } from "../core/errors.ts";
import { workerId } from "../core/ids.ts";
import type { KvEvent, KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import type { PrefixIndex } from "../kvindex/prefix-index.ts";
import type { ChainChecker, ChainVerdict } from "../prompt/chain-checker.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";
import { answerEnd } from "./answer-end.ts";
import type { Capture, FrameRow, RequestRow } from "./capture-rows.ts";
import { bytesOf } from "./redact-blocks.ts";
import { initialSource, type SourceInput, type SourceState } from "./source-state.ts";
import { stepSource } from "./source-step.ts";
import { TokenTwin } from "./verify-twin.ts";
import type { ModelText } from "./vocabularies.ts";

/** How good the predictions of a capture were. */
export interface VerifyReport {
  /** Requests whose engine reported cached tokens. */
  readonly requests: number;
  readonly exact: number;
  /** Misses whose cause the capture shows. */
  readonly explained: number;
  readonly missed: readonly VerifyMiss[];
  /** Of the canonicity check: blocks that do not count because their tokens are not those of their text. */
  readonly uncountedBlocks: number;
}

/**
 * `reset`, `restart`: the cache was emptied, which the engine had not yet published. `in-flight`: the event came after the
 * request was sent. `tokens`: what is stored for this text has other token ids than the prompt.
 */
export type MissCause = "reset" | "restart" | "in-flight" | "tokens" | "unexplained";

export interface VerifyMiss {
  readonly n: number;
  readonly predicted: number;
  readonly reported: number;
  readonly cause: MissCause;
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
  /** Checks generated blocks, as kvcached does; undefined: bytes alone. */
  readonly checker?: ChainChecker | undefined;
}

type Row = (FrameRow & { readonly kind: "frame" }) | RequestRow;
type Chat = Extract<RequestRow, { kind: "chat" }>;

/**
 * Replay a capture in the order of its times: events through the source's state machine into the index, and before each
 * request the very match that a router would ask for (the rendered prompt; nothing is tokenised), compared with what the
 * engine then reported.
 * @throws CgnError CAPTURE_INVALID when a chat cannot be rendered, or no request has a reported figure
 */
export function verifyCapture(options: VerifyOptions): VerifyReport {
  const replay = new CaptureReplay(options);
  const { capture } = options;
  const rows: Row[] = [...capture.frames.map((row) => ({ kind: "frame" as const, ...row })), ...capture.requests];
  // Stable: of equal times, frames come first.
  rows.sort((a, b) => a.t - b.t);
  replay.begin(rows[0]?.t ?? 0);
  for (const row of rows) replay.row(row);
  return replay.report();
}

/** A request under way whose prediction was wrong: what comes before its answer may show why. */
interface OpenMiss {
  readonly n: number;
  readonly at: number;
  readonly root: string;
  readonly prompt: Uint8Array;
  readonly predicted: number;
  readonly reported: number;
  /** Undefined while no cause is seen. */
  cause: MissCause | undefined;
  reason: string;
}

class CaptureReplay {
  readonly #o: VerifyOptions;
  readonly #slot: number;
  readonly #chats: ReadonlyMap<number, Chat>;
  readonly #adapters: ReadonlySet<string>;
  readonly #twin = new TokenTwin();
  #start = 0;
  #state: SourceState = initialSource(false, 0);
  #requests = 0;
  #phases = 0;
  #frames = 0;
  #uncounted = 0;
  readonly #missed: OpenMiss[] = [];
  /** Misses whose answer has not come yet. */
  readonly #open = new Map<number, OpenMiss>();
  /** Something emptied the cache and the engine has not published since. */
  #unpublished: keyof typeof UNPUBLISHED | undefined;

  constructor(options: VerifyOptions) {
    this.#o = options;
    this.#slot = options.index.addWorker(workerId("capture"));
    this.#chats = chatsOf(options.capture.requests);
    this.#adapters = adaptersOf(options);
  }

  begin(t: number): void {
    this.#start = t;
    this.#feed({ type: "connected" }, t);
  }

  row(row: Row): void {
    if (row.kind === "frame") {
      this.#frames++;
      this.#unpublished = undefined;
      const batch = row.batch ?? decoded(this.#o.decode, row.payload);
      this.#feed({ type: "live", seq: row.seq, batch }, row.t);
    } else if (row.kind === "phase") {
      if (this.#phases++ > 0) this.#notice("restarted", row.t);
    } else if (row.kind === "reset_prefix_cache") this.#notice("reset", row.t);
    else if (row.kind === "begin") this.#predict(row.n, row.t);
    else if (row.kind === "chat") this.#answered(row);
  }

  report(): VerifyReport {
    this.#o.index.dropWorker(this.#slot);
    if (this.#requests === 0) {
      const right = "Capture with an engine that reports prompt_tokens_details.cached_tokens";
      throw new CgnError(
        "CAPTURE_INVALID",
        `Cannot verify capture: no request has reported cached tokens. ${right}`,
        {},
      );
    }
    const missed = this.#missed.map(({ n, predicted, reported, cause = "unexplained", reason }): VerifyMiss => {
      const source = [this.#state.at, this.#state.detail].filter((text) => text !== "").join(" ");
      const said = reason || `not explained by the capture (source: ${source})`;
      return { n, predicted, reported, cause, reason: said };
    });
    return {
      requests: this.#requests,
      exact: this.#requests - missed.length,
      explained: missed.filter((miss) => miss.cause !== "unexplained").length,
      missed,
      uncountedBlocks: this.#uncounted,
    };
  }

  #feed(input: SourceInput, t: number): void {
    const [next, ...effects] = stepSource(this.#state, input, (t - this.#start) * 1000);
    this.#state = next;
    for (const effect of effects) {
      if (effect.do === "clear") this.#clear();
      // One event at a time: what a batch changes first may be what a request saw.
      else if (effect.do === "apply") for (const event of effect.batch.events) this.#apply(effect.batch, event, t);
    }
  }

  #clear(): void {
    this.#o.index.clearWorker(this.#slot);
    this.#o.checker?.clear();
    this.#twin.clear();
  }

  #apply(batch: KvEventBatch, event: KvEvent, t: number): void {
    const { index, text, checker } = this.#o;
    const one = { ...batch, events: [event] };
    applyEvents(index, this.#slot, one, (ids, n) => text.vocabulary.decodeBlocks(ids, n));
    this.#twin.apply(one);
    if (event.type === "cleared") checker?.clear();
    if (event.type === "stored" && (event.group ?? 0) === 0) {
      this.#count(checker?.stored({ ...event, certain: false }));
    }
    for (const miss of this.#open.values()) this.#explain(miss, t);
  }

  #count(verdict: ChainVerdict | undefined): void {
    if (verdict === undefined || verdict.uncounted.length === 0) return;
    this.#uncounted += verdict.uncounted.length;
    this.#o.index.setCounted(this.#slot, verdict.uncounted, false);
  }

  /** Has the index come to say what the engine said? Then the event was on its way. */
  #explain(miss: OpenMiss, t: number): void {
    if (miss.cause !== undefined || this.#match(miss.root, miss.prompt) !== miss.reported) return;
    miss.cause = "in-flight";
    miss.reason = `an event was still on its way: it came ${Math.round((t - miss.at) * 1000)} ms after the request`;
  }

  #notice(what: "restarted" | "reset", t: number): void {
    if (this.#o.agentNotices) {
      this.#feed({ type: "notice", what }, t);
      this.#clear();
      // Nothing that was never told of can have been forgotten.
    } else if (this.#frames > 0) this.#unpublished = what;
  }

  #predict(n: number, t: number): void {
    const chat = this.#chats.get(n);
    if (chat?.cachedTokens === undefined) return;
    this.#requests++;
    const { root, prompt } = this.#promptOf(chat, n);
    const predicted = this.#match(root, prompt);
    if (predicted === chat.cachedTokens) return;
    const miss: OpenMiss = {
      ...{ n, at: t, root, prompt, predicted, reported: chat.cachedTokens },
      ...this.#emptied(predicted, chat.cachedTokens),
    };
    if (miss.cause === undefined && this.#otherTokens(root, chat)) {
      miss.cause = "tokens";
      miss.reason =
        "what is stored for this text has other token ids than the prompt: generated tokens that are not canonical";
    }
    this.#missed.push(miss);
    this.#open.set(n, miss);
  }

  /** An emptied cache explains that less was there than was told, never that more was. */
  #emptied(predicted: number, reported: number): Pick<OpenMiss, "cause" | "reason"> {
    const what = this.#unpublished;
    if (what === undefined || reported > predicted) return { cause: undefined, reason: "" };
    return { cause: what === "restarted" ? "restart" : what, reason: UNPUBLISHED[what] };
  }

  /** By token ids the engine's figure is what its events say. */
  #otherTokens(root: string, chat: Chat): boolean {
    return chat.promptIds !== undefined && this.#twin.match(root, chat.promptIds) === chat.cachedTokens;
  }

  #answered(chat: Chat): void {
    const n = chat.n ?? -1;
    this.#open.delete(n);
    if (chat.answer === undefined || chat.body === undefined || this.#o.checker === undefined) return;
    this.#count(this.#o.checker.answered(answerEnd(this.#promptOf(chat, n).prompt, Buffer.from(chat.answer))));
  }

  #match(root: string, prompt: Uint8Array): number {
    return this.#o.index.match(root, prompt).find((m) => m.source === "events")?.tokens ?? 0;
  }

  #promptOf(chat: Chat, n: number): { readonly root: string; readonly prompt: Uint8Array } {
    if (chat.prompt !== undefined) {
      const { blocks, rest, salt } = chat.prompt;
      return { root: rootKey("", salt), prompt: bytesOf(blocks, rest) };
    }
    const body = chat.body ?? {};
    const rendered = this.#o.text.renderer?.render(body) ?? { reason: "the model has no chat template" };
    if (!("bytes" in rendered)) {
      const message = `Cannot render chat ${n} of the capture: ${rendered.reason}. Name the model's folder`;
      throw new CgnError("CAPTURE_INVALID", message, { n });
    }
    const { cache_salt: salt, model } = body;
    const lora = typeof model === "string" && this.#adapters.has(model) ? model : "";
    return { root: rootKey(lora, typeof salt === "string" ? salt : ""), prompt: rendered.bytes };
  }
}

const UNPUBLISHED = {
  reset: "the cache was reset, which the engine publishes only with its next step",
  restarted: "the engine was restarted and had not yet published anything",
} as const;

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

/** Names of adapters that the events speak of: a request for one of them is kept apart. */
function adaptersOf({ capture, decode }: VerifyOptions): ReadonlySet<string> {
  const names = new Set<string>();
  for (const frame of capture.frames) {
    for (const event of (frame.batch ?? decoded(decode, frame.payload))?.events ?? []) {
      if (event.type === "stored" && event.lora !== "") names.add(event.lora);
    }
  }
  return names;
}

function decoded(decode: VerifyOptions["decode"], payload: Uint8Array | undefined): KvEventBatch | undefined {
  if (payload === undefined) return undefined;
  try {
    return decode(payload);
  } catch {
    return undefined;
  }
}
