import type { Clock } from "../core/clock.ts";
import type { KvCanonicity } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { Outcome } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { WorkerSlot } from "../kvindex/prefix-index.ts";
import { answerEnd } from "./answer-end.ts";
import type { AppliedChange, AppliedIndex } from "./applied-index.ts";
import type { FromThread, PostedChain } from "./canonicity-messages.ts";
import { createSentTexts, type SentTexts } from "./sent-texts.ts";
import type { CanonicityHearer, CanonicityLink } from "./start-canonicity-thread.ts";

/** Tokens posted and not yet taken; beyond, chains are passed over and counted as skipped. */
const MAX_BACKLOG = 1_000_000;
const UNFIT = "the engine tokenises prompts otherwise than its tokenizer files say";
/** Chains are gathered for so long before they are posted together. */
const GATHER_MS = 1;

export interface CanonicityOptions {
  readonly index: AppliedIndex;
  readonly clock: Clock;
  readonly log: Log;
  /** Start the checks; called when the first worker with events comes. */
  start(hearer: CanonicityHearer): CanonicityLink;
  /** For status pages: a state changed. */
  changed(): void;
  readonly maxBacklog?: number;
}

interface Followed {
  readonly info: WorkerInfo;
  readonly sent: SentTexts;
  state: KvCanonicity["state"];
  detail: string;
  checked: number;
  skipped: number;
  sentTokens: number;
  uncounted: number;
  /** Its tokenizer was tried on prompts and is not the engine's. */
  unfit: boolean;
  gathered: PostedChain[];
}

/**
 * The index's side of the canonicity check: hears of each stored chain, lets a thread compare its tokens with those of its text,
 * and marks the blocks that do not count. Nothing waits for it; under a flood chains are passed over and count.
 */
export class Canonicity {
  readonly #o: CanonicityOptions;
  readonly #workers = new Map<WorkerSlot, Followed>();
  readonly #stop: () => void;
  #link: CanonicityLink | undefined;
  #failure: string | undefined;
  #backlog = 0;
  #flushing: (() => void) | undefined;

  constructor(options: CanonicityOptions) {
    this.#o = options;
    this.#stop = options.index.onApplied(({ slot }, change) => this.#applied(slot, change));
  }

  /** Check what this worker stores from now on. */
  follow(slot: WorkerSlot, info: WorkerInfo): void {
    if (info.kv.type !== "events") return;
    const plain = info.tokenizer.bytes === true;
    const followed: Followed = {
      ...{ info, sent: createSentTexts(), state: plain ? "off" : "starting" },
      detail: plain ? "any text is its own tokens there" : "",
      ...{ checked: 0, skipped: 0, sentTokens: 0, uncounted: 0, unfit: false, gathered: [] },
    };
    this.#workers.set(slot, followed);
    if (plain) return;
    if (this.#failure !== undefined) {
      this.#off(followed, this.#failure);
      return;
    }
    const repos = info.upstreamModel === undefined ? info.models : [info.upstreamModel, ...info.models];
    this.#started()?.post({ type: "follow", slot, model: { tokenizer: info.tokenizer, repos: [...repos] } });
  }

  #started(): CanonicityLink | undefined {
    try {
      this.#link ??= this.#o.start({ heard: (message) => this.#heard(message), failed: (why) => this.#failed(why) });
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
    }
    return this.#link;
  }

  /** A router sends this prompt there. */
  sent(slot: WorkerSlot, prompt: Uint8Array): void {
    const followed = this.#workers.get(slot);
    if (followed !== undefined && followed.state !== "off") followed.sent.note(prompt);
  }

  /** What came of it. */
  observed(slot: WorkerSlot, outcome: Outcome): void {
    const followed = this.#workers.get(slot);
    if (followed === undefined || followed.state === "off" || outcome.answer === undefined) return;
    this.#flush();
    this.#link?.post({ type: "answered", slot, text: answerEnd(outcome.prompt, outcome.answer) });
  }

  /** Undefined for workers without events. */
  status(slot: WorkerSlot): KvCanonicity | undefined {
    const followed = this.#workers.get(slot);
    if (followed === undefined) return undefined;
    const { state, detail, checked, skipped, sentTokens, uncounted } = followed;
    return {
      ...{ state, detail, checkedTokens: checked, skippedTokens: skipped },
      ...{ sentTokens, uncountedBlocks: uncounted },
    };
  }

  /** Why the engine's tokenizer cannot be ours, where that was found. */
  evidence(slot: WorkerSlot): { readonly unfit?: string } {
    const followed = this.#workers.get(slot);
    return followed?.unfit === true ? { unfit: UNFIT } : {};
  }

  close(): void {
    this.#stop();
    this.#flushing?.();
    this.#link?.close();
    this.#workers.clear();
  }

  #applied(slot: WorkerSlot, change: AppliedChange): void {
    const followed = this.#workers.get(slot);
    if (followed === undefined) return;
    if (change.type === "stored") this.#stored(followed, change);
    else if (change.type === "cleared" || change.type === "dropped") {
      followed.gathered = [];
      this.#link?.post({ type: change.type, slot });
      if (change.type === "dropped") this.#workers.delete(slot);
    }
  }

  #stored(followed: Followed, { blocks, tokenIds }: Extract<AppliedChange, { type: "stored" }>): void {
    if (followed.state === "off") return;
    if (this.#backlog > (this.#o.maxBacklog ?? MAX_BACKLOG)) {
      followed.skipped += tokenIds.length;
      return;
    }
    const certain = followed.sent.holds(blocks.bytes);
    if (certain) followed.sentTokens += tokenIds.length;
    this.#backlog += tokenIds.length;
    const { parent, blockTokens } = blocks;
    const names = BigUint64Array.from(blocks.names);
    followed.gathered.push({ parent, names, tokenIds: tokenIds.slice(), blockTokens, certain });
    this.#flushing ??= this.#o.clock.after(GATHER_MS, () => this.#flush());
  }

  #flush(): void {
    this.#flushing?.();
    this.#flushing = undefined;
    for (const [slot, followed] of this.#workers) {
      if (followed.gathered.length === 0) continue;
      this.#link?.post({ type: "stored", slot, chains: followed.gathered });
      followed.gathered = [];
    }
  }

  #heard(message: FromThread): void {
    if (message.type === "verdict") this.#backlog -= message.taken;
    const followed = this.#workers.get(message.slot);
    if (followed === undefined) return;
    if (message.type === "verdict") this.#verdict(message.slot, followed, message);
    else if (message.type === "unfit") {
      this.#o.index.setCounted(message.slot, message.recounted, true);
      followed.uncounted = Math.max(0, followed.uncounted - message.recounted.length);
      followed.unfit = true;
      this.#off(followed, UNFIT);
    } else if (message.reason !== undefined) this.#off(followed, message.reason);
    else {
      followed.state = "checking";
      this.#o.changed();
    }
  }

  #verdict(slot: WorkerSlot, followed: Followed, verdict: Extract<FromThread, { type: "verdict" }>): void {
    followed.checked += verdict.checked;
    followed.skipped += verdict.unknown;
    if (verdict.uncounted.length === 0) return;
    followed.uncounted += verdict.uncounted.length;
    this.#o.index.setCounted(slot, verdict.uncounted, false);
  }

  #off(followed: Followed, reason: string): void {
    followed.state = "off";
    followed.detail = reason;
    const once = this.#o.log.once(`kv/canonicity/${followed.info.models[0]}/${reason.slice(0, 20)}`);
    once.warn("generated tokens are not checked, so some blocks may be counted that the engine will not find", {
      ...{ worker: followed.info.id, reason },
    });
    this.#o.changed();
  }

  #failed(reason: string): void {
    this.#failure = `the check has ended: ${reason}`;
    this.#link = undefined;
    this.#backlog = 0;
    for (const followed of this.#workers.values()) if (followed.state !== "off") this.#off(followed, this.#failure);
  }
}
