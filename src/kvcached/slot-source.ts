import type { SlotRules } from "../core/worker.ts";
import type { TokenMark } from "../kvindex/prefix-index.ts";
import type { SavedSlots } from "../kvindex/saved-slots.ts";
import { keptPrompt, keptTokens, marksWithin, SlotCache, type SlotRun } from "../kvindex/slot-cache.ts";
import { countPieces } from "../kvindex/token-pieces.ts";
import { type HistorySource, keptOf, type SavedGuess, TokenGuess } from "./history-source.ts";

/** How far a report may lie from what was reckoned and still be about the same past: reckoning inside a turn is by bytes. */
const SAME_PAST_SHARE = 0.25;
const SAME_PAST_TOKENS = 4;

/**
 * Know a llama-server's cache by doing as it does (`SlotCache`). Nothing of it stands in the index.
 *
 * The engine's report of a request tells how many tokens the common part has: it is remembered as a mark there, so the next
 * chat with the same system prompt is predicted to the token.
 */
export function createSlotSource(rules: SlotRules): HistorySource {
  const byBytes = new TokenGuess();
  const byPieces = new TokenGuess();
  const cache = new SlotCache(rules, (prompt, covered, tokens, closely) => {
    if (!closely) return tokens + byBytes.tokens(prompt.length - covered);
    const pieces = countPieces(prompt);
    return tokens + byPieces.tokens(pieces.upTo(prompt.length) - pieces.upTo(covered));
  });
  return {
    sent(root, prompt) {
      if (prompt.length > 0) cache.start(root, prompt);
    },
    unsent(root, prompt) {
      const run = cache.find(root, prompt);
      if (run !== undefined) cache.cancel(run);
    },
    observe(outcome) {
      const { root, prompt, promptTokens, cachedTokens } = outcome;
      if (prompt.length === 0) return;
      // One that was sent before this process was there, or whose notice was lost, took its slot when it did.
      const run = cache.find(root, prompt) ?? cache.start(root, prompt);
      const { bytes, marks } = keptOf(outcome, promptTokens ?? byBytes.tokens(prompt.length));
      const kept = keptPrompt(root, bytes, [...inner(run, cachedTokens), ...marks]);
      if (promptTokens !== undefined) {
        byBytes.learn(prompt.length, promptTokens);
        byPieces.learn(kept.pieces.upTo(prompt.length), promptTokens);
      }
      cache.finish(run, kept);
    },
    match: (root, prompt) => cache.match(root, prompt),
    clear: () => cache.clear(),
    save: () => ({ byBytes: byBytes.save(), byPieces: byPieces.save(), slots: cache.save() }),
    restore(saved) {
      const { byBytes: bytes, byPieces: pieces, slots } = saved as SavedSource;
      cache.restore(slots);
      byBytes.restore(bytes);
      byPieces.restore(pieces);
    },
  };
}

interface SavedSource {
  readonly byBytes: SavedGuess;
  readonly byPieces: SavedGuess;
  readonly slots: SavedSlots;
}

/** Token counts inside the prompt: those of the past that it continued, and what the engine said of the common part. */
function inner(run: SlotRun, cachedTokens: number | undefined): readonly TokenMark[] {
  const { from, covered, prompt } = run;
  if (from === undefined || covered === 0) return [];
  const before = from.marks.filter((mark) => mark.byteLength <= covered);
  if (cachedTokens === undefined) return marksWithin(run);
  const reckoned = keptTokens(from, covered);
  const same = Math.abs(cachedTokens - reckoned) <= Math.max(SAME_PAST_TOKENS, SAME_PAST_SHARE * reckoned);
  const known = before.at(-1)?.byteLength === covered;
  return same && !known && covered < prompt.length
    ? [...before, { byteLength: covered, tokens: cachedTokens }]
    : before;
}
