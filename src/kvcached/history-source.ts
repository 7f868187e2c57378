import type { Outcome } from "../core/prefix-knowledge.ts";
import { aligned, copied, firstDifference } from "../kvindex/first-difference.ts";
import type { PrefixIndex, TokenMark, WorkerSlot } from "../kvindex/prefix-index.ts";

/** The first bytes of a prompt that are held, and how many tokens an engine would report for them. */
export interface Held {
  readonly bytes: number;
  readonly tokens: number;
}

/** What a history source hears of: requests sent to one worker, and what came of them. */
export interface HistorySource {
  /** The prompt counts as held at once, so that requests sharing its start go there too. Token counts are guessed. */
  sent(root: string, prompt: Uint8Array): void;
  /** Nothing came of a request that was told by `sent`. */
  unsent(root: string, prompt: Uint8Array): void;
  /** What the engine said. `since` is the index's clock when the request was sent. */
  observe(outcome: Outcome, since: number | undefined): void;
  /** What is held of a prompt. `inIndex`: what the index says for the worker, zeros when nothing. */
  match(root: string, prompt: Uint8Array, inIndex: Held): Held;
  /** The engine's cache is empty. */
  clear(): void;
  /** What it knows besides the index, as a plain value for `restore()` of a source of the same kind. */
  save(): unknown;
  /** @throws TypeError, RangeError for a value that `save()` never gives */
  restore(saved: unknown): void;
}

/** A `TokenGuess` as a plain value. */
export interface SavedGuess {
  readonly bytes: number;
  readonly tokens: number;
}

/** Bytes a token until the engine's first usage is seen: about what English text has in today's vocabularies. */
const FIRST_BYTES_PER_TOKEN = 4;
/** How far a report may lie below the prediction before what was believed is cut: rounding at turn ends is no loss. */
const TOLERANCE_TOKENS = 4;
/**
 * A report below the prediction proves a loss only when at least this share of the prompt was promised: for less, an engine
 * may choose an empty slot although the other past is still there.
 */
const PROOF_SHARE = 0.5;
/** Requests under way that count; older ones are forgotten: whoever sent them may be gone. */
const MAX_UNDER_WAY = 256;

/** Bytes (or another measure of text) to tokens, by all that the engine has said so far. */
export class TokenGuess {
  #bytes = 0;
  #tokens = 0;

  learn(bytes: number, tokens: number): void {
    this.#bytes += bytes;
    this.#tokens += tokens;
  }

  save(): SavedGuess {
    return { bytes: this.#bytes, tokens: this.#tokens };
  }

  restore({ bytes, tokens }: SavedGuess): void {
    this.#bytes = bytes;
    this.#tokens = tokens;
  }

  tokens(bytes: number): number {
    return Math.floor(this.#tokens > 0 ? (bytes * this.#tokens) / this.#bytes : bytes / FIRST_BYTES_PER_TOKEN);
  }
}

interface UnderWay {
  readonly root: string;
  readonly prompt: Uint8Array;
}

/**
 * Know an engine's cache from what was sent to it, for engines without KV events whose rules are not known: any common
 * prefix with any of the last prompts counts. Token counts stand at turn ends, as the engine's usage told them; `index`
 * bounds how many prompts are kept.
 *
 * Only what was answered gets into the index. A request under way counts beside it, and leaves no trace when nothing comes
 * of it.
 */
export function createHistorySource(index: Pick<PrefixIndex, "record" | "correct">, slot: WorkerSlot): HistorySource {
  const guess = new TokenGuess();
  let underWay: readonly UnderWay[] = [];
  const end = (root: string, prompt: Uint8Array): void => {
    const ended = underWay.findIndex((each) => each.root === root && equal(each.prompt, prompt));
    underWay = underWay.filter((_, i) => i !== ended);
  };
  return {
    sent(root, prompt) {
      if (prompt.length === 0) return;
      underWay = [...underWay.slice(1 - MAX_UNDER_WAY), { root, prompt: copied(prompt) }];
    },
    unsent: end,
    observe(outcome, since) {
      const { root, prompt, promptTokens, cachedTokens, predictedTokens } = outcome;
      if (prompt.length === 0) return;
      end(root, prompt);
      // Before the record: it tells of this request's own past, the report of what others left.
      const proof = predictedTokens >= PROOF_SHARE * (promptTokens ?? guess.tokens(prompt.length));
      if (cachedTokens !== undefined && proof && predictedTokens > cachedTokens + TOLERANCE_TOKENS) {
        // Pasts that promised less than half as much stay: that the engine did not take them says nothing about them.
        index.correct(slot, root, prompt, Math.max(cachedTokens, Math.floor(predictedTokens / 2)), since);
      }
      if (promptTokens !== undefined) guess.learn(prompt.length, promptTokens);
      index.record(slot, keptOf(outcome, promptTokens ?? guess.tokens(prompt.length)));
    },
    match(root, prompt, inIndex) {
      let bytes = inIndex.bytes;
      for (const each of underWay) if (each.root === root) bytes = Math.max(bytes, reach(each.prompt, prompt));
      if (bytes === inIndex.bytes) return inIndex;
      // The part that was answered is known in tokens; only the rest is guessed.
      const tokens = inIndex.tokens + guess.tokens(bytes - inIndex.bytes) - (bytes === prompt.length ? 1 : 0);
      return { bytes, tokens: Math.max(inIndex.tokens, tokens) };
    },
    clear() {
      underWay = [];
    },
    save: () => ({ guess: guess.save(), underWay: [...underWay] }),
    restore(saved) {
      const { guess: known, underWay: out } = saved as { guess: SavedGuess; underWay: readonly UnderWay[] };
      guess.restore(known);
      underWay = out.map(({ root, prompt }) => ({ root, prompt: copied(prompt) }));
    },
  };
}

function reach(a: Uint8Array, b: Uint8Array): number {
  return firstDifference(a, aligned(b), 0, Math.min(a.length, b.length));
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && reach(a, b) === a.length;
}

/** Prompt and answer as one past, with its token counts at both ends. */
export function keptOf(outcome: Outcome, promptTokens: number) {
  const { root, prompt, answer, completionTokens } = outcome;
  const marks: TokenMark[] = [{ byteLength: prompt.length, tokens: promptTokens }];
  if (answer === undefined || answer.length === 0) return { root, bytes: copied(prompt), marks };
  const bytes = new Uint8Array(prompt.length + answer.length);
  bytes.set(prompt);
  bytes.set(answer, prompt.length);
  if (outcome.promptTokens !== undefined && completionTokens !== undefined && completionTokens > 0) {
    // The last token sampled (an end-of-turn, or the one at the limit) is never computed, so it has no KV.
    marks.push({ byteLength: bytes.length, tokens: promptTokens + completionTokens - 1 });
  }
  return { root, bytes, marks };
}
