import type { KvEventBatch } from "../core/kv-event.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { Outcome, PredictionVerdict } from "../core/prefix-knowledge.ts";
import { hasOneEpoch, type WorkerInfo } from "../core/worker.ts";
import { findEngine } from "../engines/registry.ts";
import { type Applied, applyEvents } from "../kvindex/apply-events.ts";
import { EventShape } from "../kvindex/event-shape.ts";
import type { WorkerSlot } from "../kvindex/prefix-index.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";
import type { KnownBy } from "../wire/kv-delta.ts";
import type { AppliedChange } from "./applied-index.ts";
import type { FollowDeps, RestoredWorker, SourceEvidence } from "./follow-deps.ts";
import { createHistorySource, type Held, type HistorySource } from "./history-source.ts";
import { encodeHistory } from "./history-state.ts";
import { judgeEstimate, PredictionJudge, type SentMark } from "./prediction-judge.ts";
import { createSentMarks } from "./sent-marks.ts";
import { createSlotSource } from "./slot-source.ts";
import type { SourceState } from "./source-state.ts";
import type { ModelText } from "./vocabularies.ts";
import { eventsProblem, ZmqSource } from "./zmq-source.ts";

const UNDESCRIBED = "blocks that it offloads are told without their tokens, so they are not counted there";

/** Prompts believed kept by an engine whose events cannot be used. */
const FALLBACK_ENTRIES = 32;

/** One worker whose cache is followed, from registration to the end of that engine process. */
export class FollowedWorker {
  /** As it was registered; of one that slept, as it woke. */
  info: WorkerInfo;
  readonly slot: WorkerSlot;
  /** Prompts of its that are kept. */
  readonly historyEntries: number;
  readonly #d: FollowDeps;
  readonly #log: Log;
  readonly #sent = createSentMarks<SentMark>();
  readonly #judge: PredictionJudge;
  readonly #shape: EventShape;
  #history: HistorySource | undefined;
  #zmq: ZmqSource | undefined;
  /** Until the engine has proved what was written down, or disproved it. */
  #restored: RestoredWorker | undefined;
  #text: ModelText | undefined;
  #closed = false;
  /** Why nothing can be known from its events; "" while they are good. */
  #failure = "";
  /** Something odd that does not stop the source. */
  #note = "";
  /** What the decoder last said of a payload that it did not understand. */
  #unread = "";
  #parity = "unknown";
  /** How its prompts differ from ours, by the parity probe; "" when they do not. */
  #differs = "";
  /** Tokens a block, as its events say. */
  #blockTokens: number | undefined;
  #counts = { events: 0, stored: 0, removed: 0, predicted: 0, reported: 0, undecodable: 0, orphaned: 0 };

  constructor(info: WorkerInfo, deps: FollowDeps, restored?: RestoredWorker) {
    this.info = info;
    this.#d = deps;
    this.#log = deps.log.child({ worker: info.id });
    this.#shape = new EventShape(info.blockTokens);
    this.historyEntries = info.kv.type === "history" ? info.kv.entries : FALLBACK_ENTRIES;
    this.slot = deps.index.addWorker(info.id, { historyEntries: this.historyEntries });
    const { clock, index } = deps;
    const maxBytes = () => deps.journalBytes();
    this.#judge = new PredictionJudge({
      ...{ index: index.index, slot: this.slot, clock, maxBytes },
      blockTokens: info.blockTokens,
    });
    if (info.kv.type === "history") {
      const { slots } = info.kv;
      this.#history = slots === undefined ? createHistorySource(deps.index, this.slot) : createSlotSource(slots);
    }
    this.#restored = restored;
    if (restored !== undefined) this.#shape.restore(restored.shape);
    void (restored?.loaded ?? Promise.resolve()).then(() => this.#start());
  }

  /** How it is known just now. */
  get knownBy(): KnownBy {
    if (this.#history !== undefined) return "history";
    return this.#restored === undefined ? "events" : "unproved";
  }

  /** What another run needs, besides what is held in the index, to go on; undefined: nothing could prove it to be still true. */
  get resumable(): Pick<RestoredWorker, "resume" | "shape"> | undefined {
    if (this.info.kv.type !== "events" || this.info.kv.replay === undefined) return undefined;
    const resume = this.#zmq === undefined ? this.#restored?.resume : this.#zmq.resumePoint;
    return resume === undefined ? undefined : { resume, shape: this.#shape.save() };
  }

  /** What its history source knows besides the index, for a copy of it; undefined where there is none. */
  historyState(): Uint8Array | undefined {
    return this.#history === undefined ? undefined : encodeHistory(this.#history);
  }

  get vocabulary(): Vocabulary | undefined {
    return this.#text?.vocabulary;
  }

  /** A request goes to this worker. `how`: as `PredictionJudge.sent()`. */
  sent(root: string, prompt: Uint8Array, how: { elsewhere?: boolean; matchedMs?: number } = {}): void {
    this.#sent.note(root, prompt, this.#judge.sent({ ...how, unproved: this.knownBy === "unproved" }));
    this.#history?.sent(root, prompt);
  }

  /** Nothing came of a request that went there. */
  unsent(root: string, prompt: Uint8Array): void {
    this.#sent.take(root, prompt);
    this.#history?.unsent(root, prompt);
  }

  /** What is held of a prompt, by what was sent; `inIndex` is what the index says. Undefined where events tell all. */
  match(root: string, prompt: Uint8Array, inIndex: Held): Held | undefined {
    return this.#history?.match(root, prompt, inIndex);
  }

  /** What an engine with several KV groups counts is a multiple of so many tokens; 1 for others. */
  get alignTokens(): number {
    return this.#shape.alignTokens;
  }

  /** Fewer tokens than these of a common prefix count as none. */
  get minTokens(): number {
    const { kv } = this.info;
    return (kv.type === "history" ? kv.minTokens : undefined) ?? 1;
  }

  /** What it holds has changed. */
  heard(change: AppliedChange): void {
    this.#judge.heard(change);
  }

  /** A request came back: the truth meter, corrections, and history. `judged` is called once where a figure was reported. */
  observe(outcome: Outcome, judged: (verdict: PredictionVerdict) => void = () => {}): void {
    // What an earlier process said of its cache is void.
    if (outcome.epoch !== this.info.epoch && hasOneEpoch(this.info)) return;
    const { root, prompt, cachedTokens, predictedTokens } = outcome;
    const mark = this.#sent.take(root, prompt);
    const since = mark?.clock;
    if (this.#history === undefined) this.#judge.judge(outcome, mark, this.alignTokens, judged);
    else judgeEstimate(outcome, judged);
    if (cachedTokens !== undefined) {
      this.#counts.predicted += predictedTokens;
      this.#counts.reported += cachedTokens;
    }
    if (this.#history !== undefined) this.#history.observe(outcome, since);
    else if (cachedTokens !== undefined && predictedTokens > cachedTokens && since !== undefined) {
      const cut = this.#d.index.correct(this.slot, root, prompt, cachedTokens, since);
      if (cut) this.#log.debug("engine held less than its events said", { predictedTokens, cachedTokens });
    }
  }

  /** Its process sleeps and has forgotten its KV: it is empty now (it tells that itself only with its next step), and its events go on. */
  slept(info: WorkerInfo): void {
    this.info = info;
    this.notice("reset");
  }

  /** Somebody else watches it too, or its watcher heard its first answer: what is known stays, and it is asked what it could not be asked before. */
  seen(info: WorkerInfo): void {
    const before = this.info;
    const isFirstAnswer = before.state === "starting" && info.state !== "starting";
    if (!isFirstAnswer && info.epoch <= before.epoch) return;
    const epoch = Math.max(before.epoch, info.epoch);
    this.info = isFirstAnswer ? { ...info, epoch } : { ...before, epoch };
    if (!isFirstAnswer) return;
    this.#shape.announce(info.blockTokens);
    if (this.#text !== undefined) void this.#prove(this.#text);
  }

  /** Told by the agent ahead of the engine: all it held is gone. */
  notice(what: "restarted" | "reset"): void {
    this.#settle(false, `the agent says that it was ${what}`);
    if (this.#zmq !== undefined) this.#zmq.notice(what);
    this.#d.index.clearWorker(this.slot);
    this.#history?.clear();
    this.#d.changed();
  }

  /** What speaks for and against its events, for the truth meter. */
  get evidence(): SourceEvidence {
    const { undecodable, events } = this.#counts;
    const odd = undecodable > 0 ? `${undecodable} of its blocks have token ids that the vocabulary lacks` : "";
    return {
      events,
      lostStretches: this.#zmq?.state.counts.unfilled ?? 0,
      orphanedBlocks: this.#counts.orphaned,
      blockTokens: this.#blockTokens,
      mismatch: this.#differs || odd,
    };
  }

  status(): KvSourceStatus {
    const { info } = this;
    const zmq = this.#zmq?.state;
    const events = info.kv.type === "events";
    const state = this.#failure !== "" ? "failed" : (zmq?.at ?? (events ? "connecting" : "live"));
    const idle = events ? "loading the vocabulary" : "known from what was sent";
    return {
      worker: info.id,
      model: info.models[0] ?? "",
      type: info.kv.type,
      state,
      detail: [this.#failure, this.#note, this.#said(zmq) ?? idle].find((text) => text !== "") ?? "",
      events: this.#counts.events,
      blocks: this.#d.index.index.blocksOf(this.slot),
      blocksStored: this.#counts.stored,
      blocksRemoved: this.#counts.removed,
      gaps: zmq?.counts.gaps ?? 0,
      restarts: zmq?.counts.restarts ?? 0,
      malformed: zmq?.counts.malformed ?? 0,
      lastSequence: zmq === undefined ? -1 : zmq.next - 1,
      predictedTokens: this.#counts.predicted,
      reportedTokens: this.#counts.reported,
      parity: this.#parity,
      ...(info.kv.type === "events" && info.kv.origin !== undefined ? { origin: info.kv.origin } : {}),
    };
  }

  /** What its source says of itself, and of a failed one what the decoder said last. */
  #said(state: SourceState | undefined): string | undefined {
    const read = state?.at !== "failed" || this.#unread === "";
    return read ? state?.detail : `${state.detail}. ${this.#unread}`;
  }

  close(): void {
    this.#closed = true;
    this.#settle(false, "the worker is gone");
    this.#zmq?.close();
    this.#judge.close();
    this.#d.index.dropWorker(this.slot);
  }

  #settle(believed: boolean, why: string): void {
    const restored = this.#restored;
    this.#restored = undefined;
    restored?.settled(believed, why);
  }

  async #start(): Promise<void> {
    if (this.#closed) return;
    let text: ModelText;
    try {
      text = await this.#d.vocabularies.of(this.info);
    } catch (error) {
      // Without a vocabulary a history source still works: it never decodes.
      // The router has no template then either, so nothing is told of what was sent.
      const reason = error instanceof Error ? error.message : String(error);
      if (this.info.kv.type === "events") this.#fail(reason, "until then requests go to it by load alone");
      return;
    }
    if (this.#closed) return;
    this.#text = text;
    this.#subscribe(text.vocabulary);
    await this.#prove(text);
  }

  /** Do its prompts look as ours? */
  async #prove(text: ModelText): Promise<void> {
    const parity = await this.#d.parity(this.info, text);
    if (this.#closed) return;
    this.#parity = parity.text;
    if (parity.text !== "equal" && !parity.text.startsWith("unknown")) {
      this.#differs = `prompts are rendered otherwise than it does: ${parity.text}`;
      const once = this.#log.once(`kv/parity/${this.info.models[0]}`);
      once.warn("prompts are rendered otherwise than the engine does", { parity: parity.text });
    }
    if (parity.badly && this.info.kv.type === "events") {
      this.#fail(`prompts are rendered otherwise than the engine does: ${parity.text}`);
    }
    this.#d.changed();
  }

  #subscribe(vocabulary: Vocabulary): void {
    const { kv, kind } = this.info;
    if (kv.type !== "events") return;
    const { decodeEvents: decode, decodeEventsInSteps: steps } = findEngine(kind);
    const problem = eventsProblem(kind, decode);
    if (decode === undefined || problem !== undefined) {
      this.#fail(problem ?? "");
      return;
    }
    const zmq = new ZmqSource({
      endpoint: kv.endpoint,
      replay: kv.replay,
      topic: kv.topic,
      decode,
      ...(steps === undefined ? {} : { steps }),
      clock: this.#d.clock,
      turns: this.#d.turns,
      resume: this.#restored?.resume,
      ...(this.#d.policy === undefined ? {} : { policy: this.#d.policy }),
      apply: (batch) => this.#apply(batch, vocabulary),
      inPieces: true,
      clear: (why) => {
        this.#d.index.clearWorker(this.slot);
        this.#shape.reset();
        this.#settle(false, why);
        this.#log.info("forgot what the worker held", { why });
      },
      changed: (state) => this.#changed(state),
      malformed: (error) => {
        const said = error instanceof Error ? error.message : String(error);
        this.#unread = said;
        this.#log.once(`kv/malformed/${this.info.id}`).warn("KV event message not understood", { error: said });
      },
    });
    this.#zmq = zmq;
    zmq.start();
  }

  #apply(batch: KvEventBatch, vocabulary: Vocabulary): void {
    const applied = applyEvents(
      this.#d.index,
      this.slot,
      batch,
      (ids, n) => vocabulary.decodeBlocks(ids, n),
      this.#shape,
    );
    this.#d.events?.(this.info.id, batch);
    this.#counts.events += batch.events.length;
    this.#counts.stored += applied.stored;
    this.#counts.removed += applied.removed;
    this.#check(applied);
  }

  /** What events say against what was announced. */
  #check(applied: Applied): void {
    const { blockTokens } = this.info;
    this.#counts.undecodable += applied.undecodable;
    this.#counts.orphaned += applied.orphaned;
    this.#blockTokens = applied.blockTokens ?? this.#blockTokens;
    let note = this.#note;
    if (applied.undecodable > 0) {
      note = `${this.#counts.undecodable} blocks have token ids that the vocabulary lacks: is the tokenizer this model's?`;
    } else if (applied.copied > 0) {
      note = `${UNDESCRIBED}. Set self_describing_kv_events to true in its kv_connector_extra_config`;
    } else if (applied.blockTokens !== undefined && blockTokens !== undefined && applied.blockTokens !== blockTokens) {
      note = `block size differs: announced ${blockTokens} tokens, events say ${applied.blockTokens}, which is used`;
    }
    if (note === this.#note) return;
    this.#note = note;
    this.#log.once(`kv/note/${this.info.id}/${note.slice(0, 10)}`).warn(note);
    this.#d.changed();
  }

  /** Its events are of no use: what is sent to it is all that can be known. */
  #fail(reason: string, until = "until then it is followed by what was sent"): void {
    this.#settle(false, reason);
    this.#zmq?.close();
    this.#d.index.clearWorker(this.slot);
    this.#failure = `${reason} (${until})`;
    this.#history = createHistorySource(this.#d.index, this.slot);
    this.#log.once(`kv/failed/${this.info.id}`).warn("KV events are not used", { reason });
    this.#d.changed();
  }

  /** While its events make no sense, what is sent to it is all that can be known. */
  #fallBack(failed: boolean, reason: string): void {
    if (this.#failure !== "" || failed === (this.#history !== undefined)) return;
    this.#d.index.clearWorker(this.slot);
    this.#history = failed ? createHistorySource(this.#d.index, this.slot) : undefined;
    if (failed) this.#log.once(`kv/failed/${this.info.id}`).warn("KV events are not used for a while", { reason });
    else this.#log.info("KV events are used again");
  }

  #changed(state: SourceState): void {
    if (!state.proving) this.#settle(true, "");
    this.#fallBack(state.at === "failed", state.detail);
    if (state.at === "silent")
      this.#log.once(`kv/silent/${this.info.id}`).warn("KV event source is silent", { detail: state.detail });
    else this.#log.debug("KV event source", { state: state.at, detail: state.detail });
    this.#d.changed();
  }
}
