import type { Outcome } from "../core/prefix-knowledge.ts";
import type { PrefixIndex, TokenMark, WorkerSlot } from "../kvindex/prefix-index.ts";

/** What a history source hears of: requests sent to one worker, and what came of them. */
export interface HistorySource {
  /** The prompt counts as held at once, so that requests sharing its start go there too. Token counts are guessed. */
  sent(root: string, prompt: Uint8Array): void;
  /** What the engine said. `since` is the index's clock when the request was sent. */
  observe(outcome: Outcome, since: number | undefined): void;
}

/** Bytes a token until the engine's first usage is seen: about what English text has in today's vocabularies. */
const FIRST_BYTES_PER_TOKEN = 4;
/** How far a report may lie below the prediction before what was believed is cut: rounding at turn ends is no loss. */
const TOLERANCE_TOKENS = 4;
/**
 * A report below the prediction proves a loss only when at least this share of the prompt was promised: for less, an engine
 * may choose an empty slot although the other past is still there (llama-server takes a slot from a similarity of 0.1 on).
 */
const PROOF_SHARE = 0.5;

/**
 * Know an engine's cache from what was sent to it, for engines without KV events. Token counts stand at turn ends, as the
 * engine's usage told them; `index` bounds how many prompts are kept.
 */
export function createHistorySource(index: PrefixIndex, slot: WorkerSlot): HistorySource {
  let seenBytes = 0;
  let seenTokens = 0;
  const guess = (bytes: number) =>
    Math.floor(seenTokens > 0 ? (bytes * seenTokens) / seenBytes : bytes / FIRST_BYTES_PER_TOKEN);
  return {
    sent(root, prompt) {
      if (prompt.length === 0) return;
      index.record(slot, { root, bytes: prompt, marks: [{ byteLength: prompt.length, tokens: guess(prompt.length) }] });
    },
    observe(outcome, since) {
      const { root, prompt, promptTokens, cachedTokens, predictedTokens } = outcome;
      if (prompt.length === 0) return;
      // Before the record: it tells of this request's own past, the report of what others left.
      const proof = predictedTokens >= PROOF_SHARE * (promptTokens ?? guess(prompt.length));
      if (cachedTokens !== undefined && proof && predictedTokens > cachedTokens + TOLERANCE_TOKENS) {
        // Pasts that promised less than half as much stay: that the engine did not take them says nothing about them.
        index.correct(slot, root, prompt, Math.max(cachedTokens, Math.floor(predictedTokens / 2)), since);
      }
      if (promptTokens !== undefined) {
        seenBytes += prompt.length;
        seenTokens += promptTokens;
      }
      index.record(slot, recordOf(outcome, guess(prompt.length)));
    },
  };
}

/** Prompt and answer as one past, with its token counts at both ends. */
function recordOf(outcome: Outcome, guessed: number) {
  const { root, prompt, answer, promptTokens, completionTokens } = outcome;
  const marks: TokenMark[] = [{ byteLength: prompt.length, tokens: promptTokens ?? guessed }];
  if (answer === undefined || answer.length === 0) return { root, bytes: prompt, marks };
  const bytes = new Uint8Array(prompt.length + answer.length);
  bytes.set(prompt);
  bytes.set(answer, prompt.length);
  if (promptTokens !== undefined && completionTokens !== undefined && completionTokens > 0) {
    // The last token sampled (an end-of-turn, or the one at the limit) is never computed, so it has no KV.
    marks.push({ byteLength: bytes.length, tokens: promptTokens + completionTokens - 1 });
  }
  return { root, bytes, marks };
}
