import type { Clock } from "../core/clock.ts";
import type { BlockNames } from "../core/kv-event.ts";
import type { Outcome, PredictionVerdict } from "../core/prefix-knowledge.ts";
import type { PrefixIndex, StoredBlocks, WorkerSlot } from "../kvindex/prefix-index.ts";
import type { AppliedChange } from "./applied-index.ts";
import { ChangeJournal, type JournalEntry } from "./change-journal.ts";
import { type Anchor, explainMiss } from "./explain-miss.ts";

/** Where everything stood when a request was sent. */
export interface SentMark {
  /** The index's clock. */
  readonly clock: number;
  /** Number of the worker's next change. */
  readonly change: number;
  readonly atMs: number;
  /** What a snapshot says of the worker was not confirmed yet, so it did not count. */
  readonly unproved: boolean;
}

/** A change of what a worker holds; `AppliedChange` and the deltas of a watch are such. */
export type HeldChange =
  | { readonly type: "stored"; readonly blocks: StoredBlocks }
  | { readonly type: "removed"; readonly names: BlockNames }
  | { readonly type: "counted"; readonly names: BlockNames; readonly counted: boolean }
  | { readonly type: "cleared" };

type OtherChange = { readonly type: Exclude<AppliedChange["type"], HeldChange["type"]> };

export interface PredictionJudgeOptions {
  readonly index: PrefixIndex;
  readonly slot: WorkerSlot;
  readonly clock: Clock;
  /** Tokens a block, until events say it. */
  readonly blockTokens: number | undefined;
  /** What may be kept of its changes, in bytes. */
  maxBytes(): number;
}

/** An event may come after the answer: what is not explained is looked at again so long after it. */
const LOOK_AGAIN_MS = [250, 1_000, 3_000];
/** What a router elsewhere predicted from is so much older than what is known here, at most. */
const ELSEWHERE_MS = 1_000;
/** Wrong predictions that wait for an event at the same time; more are not explained. */
const MAX_WAITING = 256;
/** A worker to which nothing was sent for so long is not written down any more. */
const IDLE_MS = 600_000;

const NO_EVENT = "no event between its request and some seconds after its answer leads to what the engine reported";
const NOT_PROVED = "what the snapshot says of the engine was not confirmed by it yet, so it did not count";
const TOO_MUCH = "more changed since it was sent than is kept";

/** Says of each prediction for one worker whether it was right, and if not, which event had not come yet. */
export class PredictionJudge {
  readonly #o: PredictionJudgeOptions;
  readonly #journal: ChangeJournal;
  #blockTokens: number;
  #lastSentMs = 0;
  readonly #waiting = new Set<() => void>();

  constructor(options: PredictionJudgeOptions) {
    this.#o = options;
    this.#journal = new ChangeJournal(options.maxBytes);
    this.#blockTokens = options.blockTokens ?? 0;
  }

  /**
   * A request goes there. `elsewhere`: another process predicted, by a copy that hears of changes later. `matchedMs`: when it was
   * matched, where that was earlier (a retry goes by the first match).
   */
  sent({ elsewhere = false, unproved = false, matchedMs = Number.POSITIVE_INFINITY } = {}): SentMark {
    const { clock, index } = this.#o;
    const atMs = clock.now();
    this.#journal.begin();
    this.#lastSentMs = atMs;
    const fromMs = Math.min(matchedMs, elsewhere ? atMs - ELSEWHERE_MS : atMs);
    const change = fromMs < atMs ? this.#journal.firstAt(fromMs) : this.#journal.next;
    return { clock: index.clock, change, atMs, unproved };
  }

  /** What it holds has changed. */
  heard(change: HeldChange | OtherChange): void {
    const atMs = this.#o.clock.now();
    if (change.type === "stored") {
      this.#blockTokens = change.blocks.blockTokens;
      this.#journal.stored(change.blocks, atMs);
    } else if (change.type === "removed") this.#journal.removed(change.names, atMs);
    else if (change.type === "counted") this.#journal.counted(change.names, change.counted, atMs);
    else if (change.type === "cleared") this.#journal.cleared(atMs);
    if (atMs - this.#lastSentMs > IDLE_MS && this.#waiting.size === 0) this.#journal.end();
  }

  /**
   * Judge a prediction, before the index is corrected by it.
   * @param told - called once, at once or when it is clear that no event explains it
   */
  judge(
    outcome: Outcome,
    mark: SentMark | undefined,
    alignTokens: number,
    told: (verdict: PredictionVerdict) => void,
  ): void {
    const { cachedTokens: reportedTokens, predictedTokens, root, prompt } = outcome;
    if (reportedTokens === undefined) return;
    const plain = plainVerdict(outcome, mark);
    if (plain !== undefined || mark === undefined) {
      told(plain ?? { result: "unexplained", reason: "it is not known when it was sent" });
      return;
    }
    const last = this.#match(root, prompt);
    const miss = { root, prompt, predictedTokens, reportedTokens, alignTokens, heldNow: last.blocks };
    const anchors = [last];
    let predicted: Anchor | undefined;
    const look = (): boolean => {
      const { changes } = this.#journal.since(mark.change);
      const known = { ...miss, blockTokens: this.#blockTokens };
      let found = explainMiss({ ...known, anchors }, changes);
      if (found === undefined && changes.length > 0) {
        // Rarely needed, and as dear as a dozen look-ups.
        predicted ??= this.#endOf(root, prompt, Math.floor(predictedTokens / this.#blockTokens));
        found = predicted && explainMiss({ ...known, anchors: [...anchors, predicted] }, changes);
      }
      if (found !== undefined) told({ result: "in_flight", reason: reasonOf(found, found.atMs - mark.atMs) });
      return found !== undefined;
    };
    if (!look()) this.#lookAgain(look, () => told(this.#unexplained(mark)), 0);
  }

  close(): void {
    for (const cancel of this.#waiting) cancel();
    this.#waiting.clear();
    this.#journal.end();
  }

  #unexplained(mark: SentMark): PredictionVerdict {
    const { whole } = this.#journal.since(mark.change);
    return { result: "unexplained", reason: whole ? NO_EVENT : TOO_MUCH };
  }

  #lookAgain(look: () => boolean, giveUp: () => void, n: number): void {
    const pause = LOOK_AGAIN_MS[n];
    if (pause === undefined || this.#waiting.size >= MAX_WAITING) {
      giveUp();
      return;
    }
    const cancel = this.#o.clock.after(pause - (LOOK_AGAIN_MS[n - 1] ?? 0), () => {
      this.#waiting.delete(cancel);
      if (!look()) this.#lookAgain(look, giveUp, n + 1);
    });
    this.#waiting.add(cancel);
  }

  /** Where the prompt's first `blocks` blocks end; undefined where fewer are held now. */
  #endOf(root: string, prompt: Uint8Array, blocks: number): Anchor | undefined {
    const last = this.#match(root, prompt);
    if (!(blocks > 0 && last.blocks > blocks)) return undefined;
    // The shortest beginning of the prompt of which so many blocks are held ends with a byte more than they do.
    let [low, high] = [0, last.bytes];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#match(root, prompt.subarray(0, middle + 1)).blocks >= blocks) high = middle;
      else low = middle + 1;
    }
    return { blocks, bytes: low };
  }

  #match(root: string, prompt: Uint8Array): Anchor {
    const { index, slot } = this.#o;
    const found = index.match(root, prompt).find((match) => match.slot === slot && match.source === "events");
    return { blocks: found?.blocks ?? 0, bytes: found?.bytes ?? 0 };
  }
}

/** What is clear without a look at the changes. */
function plainVerdict({ cachedTokens, predictedTokens }: Outcome, mark?: SentMark): PredictionVerdict | undefined {
  if (cachedTokens === predictedTokens) return { result: "exact", reason: "" };
  return mark?.unproved === true ? { result: "in_flight", reason: NOT_PROVED } : undefined;
}

function reasonOf(change: JournalEntry, afterMs: number): string {
  const ms = Math.round(Math.abs(afterMs));
  const when =
    afterMs >= 0 ? `${ms} ms after the request was sent` : `${ms} ms before it was sent, after it was matched`;
  if (change.type === "counted") return `the check of generated tokens spoke ${when}`;
  const what = {
    stored: "stored blocks that it has",
    removed: "removed blocks that it has",
    cleared: "emptied the cache",
  };
  return `the event that ${what[change.type]} came ${when}`;
}

/** Judge a prediction for an engine that publishes no events. */
export function judgeEstimate(
  { cachedTokens, predictedTokens }: Outcome,
  told: (verdict: PredictionVerdict) => void,
): void {
  if (cachedTokens === undefined) return;
  if (cachedTokens === predictedTokens) told({ result: "exact", reason: "" });
  else
    told({ result: "estimated", reason: "it publishes no events: what it keeps is inferred from what was sent to it" });
}
