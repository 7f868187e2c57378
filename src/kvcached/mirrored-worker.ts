import type { Clock } from "../core/clock.ts";
import type { Outcome, PredictionVerdict } from "../core/prefix-knowledge.ts";
import { hasOneEpoch, type WorkerInfo } from "../core/worker.ts";
import type { PrefixIndex, WorkerSlot } from "../kvindex/prefix-index.ts";
import type { Knowledge, KnownBy, WatchedWorker } from "../wire/kv-delta.ts";
import { createHistorySource, type Held, type HistorySource } from "./history-source.ts";
import { decodeHistory, encodeHistory } from "./history-state.ts";
import type { MatchableWorker } from "./match-workers.ts";
import { type HeldChange, judgeEstimate, PredictionJudge, type SentMark } from "./prediction-judge.ts";
import { createSentMarks } from "./sent-marks.ts";
import { createSlotSource } from "./slot-source.ts";

/** A copy of a worker that a kvcached elsewhere follows: what it holds is in the copy's index, and how it is known here. */
export class MirroredWorker implements MatchableWorker {
  readonly info: WorkerInfo;
  readonly slot: WorkerSlot;
  /** Notes up to this version are contained in what it began with. */
  readonly historyVersion: number;
  knownBy: KnownBy = "events";
  alignTokens = 1;
  /**
   * Own notes up to this number come by the watch and count then: they were on their way when the copy was made. Later ones
   * counted here at once.
   */
  ownNote: number;
  readonly #index: PrefixIndex;
  readonly #sent = createSentMarks<SentMark>();
  readonly #judge: PredictionJudge;
  #history: HistorySource | undefined;

  constructor(watched: WatchedWorker, index: PrefixIndex, ownNote: number, clock: Clock, journalBytes: () => number) {
    this.info = watched.info;
    this.historyVersion = watched.historyVersion;
    this.ownNote = ownNote;
    this.#index = index;
    this.slot = index.addWorker(watched.info.id, { historyEntries: watched.historyEntries });
    const { blockTokens } = watched.info;
    this.#judge = new PredictionJudge({ index, slot: this.slot, clock, blockTokens, maxBytes: journalBytes });
    this.learn(watched);
    if (watched.history !== undefined && this.#history !== undefined) decodeHistory(watched.history, this.#history);
  }

  get minTokens(): number {
    const { kv } = this.info;
    return (kv.type === "history" ? kv.minTokens : undefined) ?? 1;
  }

  /** How it is known changed. */
  learn({ knownBy, alignTokens }: Knowledge): void {
    this.knownBy = knownBy;
    this.alignTokens = alignTokens;
    if ((knownBy === "history") === (this.#history !== undefined)) return;
    const { kv } = this.info;
    const slots = kv.type === "history" ? kv.slots : undefined;
    if (knownBy !== "history") this.#history = undefined;
    else this.#history = slots === undefined ? createHistorySource(this.#index, this.slot) : createSlotSource(slots);
  }

  /**
   * Believe what an older copy of the same process believes, which heard all that was sent from here.
   * @returns false when it cannot be taken over
   */
  inherit(older: MirroredWorker, olderIndex: PrefixIndex): boolean {
    if (this.#history === undefined || older.#history === undefined || older.info.epoch !== this.info.epoch)
      return false;
    if (JSON.stringify(older.info.kv) !== JSON.stringify(this.info.kv)) return false;
    if (!decodeHistory(encodeHistory(older.#history), this.#history)) return false;
    if (olderIndex.seed === this.#index.seed) {
      for (const chunk of olderIndex.save(older.slot)) this.#index.load(this.slot, chunk);
    }
    this.ownNote = -1;
    return true;
  }

  sent(root: string, prompt: Uint8Array, matchedMs = Number.POSITIVE_INFINITY): void {
    this.#sent.note(root, prompt, this.#judge.sent({ matchedMs, unproved: this.knownBy === "unproved" }));
    this.#history?.sent(root, prompt);
  }

  unsent(root: string, prompt: Uint8Array): void {
    this.#sent.take(root, prompt);
    this.#history?.unsent(root, prompt);
  }

  /** What it holds has changed. */
  heard(change: HeldChange): void {
    this.#judge.heard(change);
  }

  observe(outcome: Outcome, judged: (verdict: PredictionVerdict) => void = () => {}): void {
    if (outcome.epoch !== this.info.epoch && hasOneEpoch(this.info)) return;
    const { root, prompt, cachedTokens, predictedTokens } = outcome;
    const mark = this.#sent.take(root, prompt);
    const since = mark?.clock;
    if (this.#history === undefined) this.#judge.judge(outcome, mark, this.alignTokens, judged);
    else judgeEstimate(outcome, judged);
    if (this.#history !== undefined) this.#history.observe(outcome, since);
    else if (cachedTokens !== undefined && predictedTokens > cachedTokens && since !== undefined) {
      this.#index.correct(this.slot, root, prompt, cachedTokens, since);
    }
  }

  clear(): void {
    this.#index.clearWorker(this.slot);
    this.#judge.heard({ type: "cleared" });
    this.#history?.clear();
  }

  match(root: string, prompt: Uint8Array, inIndex: Held): Held | undefined {
    return this.#history?.match(root, prompt, inIndex);
  }

  /** It is not followed any more. */
  close(): void {
    this.#judge.close();
  }
}
