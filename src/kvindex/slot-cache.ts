import type { SlotRules } from "../core/worker.ts";
import { aligned, copied, firstDifference } from "./first-difference.ts";
import type { TokenMark } from "./prefix-index.ts";
import { restoreSlots, type SavedSlots, saveSlots } from "./saved-slots.ts";
import { cleanMarks, tokensAt } from "./token-marks.ts";
import { countPieces, type PieceCount } from "./token-pieces.ts";

/** A prompt, and its answer behind it, as a slot or the store has it. Never changed. */
export interface KeptPrompt {
  readonly root: string;
  readonly bytes: Uint8Array;
  readonly marks: readonly TokenMark[];
  readonly pieces: PieceCount;
}

/** Make one. Between two marks tokens are reckoned by pieces of text. */
export function keptPrompt(root: string, bytes: Uint8Array, marks: readonly TokenMark[]): KeptPrompt {
  let pieces: PieceCount | undefined;
  return {
    root,
    bytes,
    marks: cleanMarks(marks, bytes.length),
    // Counted when first asked for: a prompt that only grows never is.
    get pieces() {
      pieces ??= countPieces(bytes);
      return pieces;
    },
  };
}

/**
 * How many tokens a prompt has of which the first `covered` bytes are `tokens` tokens. `closely`: it decides something, so
 * it may cost a look at each byte.
 */
export type TotalTokens = (prompt: Uint8Array, covered: number, tokens: number, closely: boolean) => number;

/** How many tokens the first bytes of a kept prompt are. */
export function keptTokens({ marks, pieces }: KeptPrompt, byteLength: number): number {
  let low: TokenMark = { byteLength: 0, tokens: 0 };
  for (const mark of marks) {
    if (mark.byteLength > byteLength) {
      const from = pieces.upTo(low.byteLength);
      const share = (pieces.upTo(byteLength) - from) / Math.max(1, pieces.upTo(mark.byteLength) - from);
      return low.tokens + Math.floor(share * (mark.tokens - low.tokens));
    }
    low = mark;
  }
  return tokensAt(marks, byteLength);
}

/** A request that a slot works on. */
export interface SlotRun {
  readonly root: string;
  readonly prompt: Uint8Array;
  readonly slot: number;
  /** What it continued: so many bytes of `from` were there already. */
  readonly covered: number;
  readonly from: KeptPrompt | undefined;
}

/** One slot of the engine. */
export interface Slot {
  readonly kept: KeptPrompt | undefined;
  readonly run: SlotRun | undefined;
  /** Order of last use; -1 before the first. */
  readonly used: number;
}

/** Everything that is believed of an engine, as one value. */
export interface SlotState {
  readonly slots: readonly Slot[];
  /** Oldest first. */
  readonly store: readonly KeptPrompt[];
}

/** Below this share of a slot's content going on, the content is put into the store first, which is then looked through. */
const KEEP_SHARE = 0.5;
/** A stored prompt is taken out only when at least this share of it goes on. */
const LOAD_SHARE = 0.25;
/** A share within this factor of the least one is looked at closely. */
const NEAR_SHARE = 1.7;
/** Prompts in the store, whatever their tokens: what is believed must not grow without end. */
const MAX_STORED = 256;

/**
 * What one llama-server holds, found by doing as it does with each request that is sent to it (`get_available_slot`,
 * `process_single_task`, `server_prompt_cache` in llama.cpp's tools/server, October 2026; seen alike in a running server).
 *
 * Right as long as all its requests pass here, one at a time per slot. Whoever else asks the engine makes it wrong for a
 * while: each request puts what is known at its place again.
 */
export class SlotCache {
  readonly #rules: SlotRules;
  readonly #total: TotalTokens;
  #state: SlotState;
  #uses = 0;
  /** Before the last request started, and while nothing else happened since: to take it back. */
  #undo: { readonly run: SlotRun; readonly state: SlotState } | undefined;

  constructor(rules: SlotRules, total: TotalTokens) {
    this.#rules = rules;
    this.#total = total;
    this.#state = emptyState(rules);
  }

  /** Prompts kept, in slots and in the store. */
  get size(): number {
    return this.#state.store.length + this.#state.slots.filter((slot) => slot.kept !== undefined).length;
  }

  clear(): void {
    this.#state = emptyState(this.#rules);
    this.#undo = undefined;
  }

  /** Everything that is believed, as a plain value for `restore()` of another cache with the same rules. */
  save(): SavedSlots {
    return saveSlots(this.#state, this.#uses);
  }

  /** Believe what another cache did. @throws RangeError for a value that `save()` never gives */
  restore(saved: SavedSlots): void {
    this.#state = restoreSlots(saved, emptyState(this.#rules));
    this.#uses = saved.uses;
    this.#undo = undefined;
  }

  /** What the engine would find in its cache if this prompt were sent now. */
  match(root: string, prompt: Uint8Array): { readonly bytes: number; readonly tokens: number } {
    const { run } = this.#chosen(root, aligned(prompt));
    return { bytes: run.covered, tokens: heldTokens(run) };
  }

  /** A request starts. Its prompt is copied. */
  start(root: string, prompt: Uint8Array): SlotRun {
    const before = this.#state;
    const { run, state } = this.#chosen(root, copied(prompt));
    const held = heldTokens(run);
    const total = Math.max(held + 1, this.#total(run.prompt, run.covered, held, false));
    const marks = [...marksWithin(run), { byteLength: prompt.length, tokens: total }];
    this.#state = withSlot(state, run.slot, { kept: keptPrompt(root, run.prompt, marks), run, used: ++this.#uses });
    this.#undo = { run, state: before };
    return run;
  }

  /** The oldest request with this prompt that is not over yet. */
  find(root: string, prompt: Uint8Array): SlotRun | undefined {
    const text = aligned(prompt);
    let found: Slot | undefined;
    for (const slot of this.#state.slots) {
      const { run } = slot;
      if (run === undefined || run.root !== root || run.prompt.length !== text.length) continue;
      if (firstDifference(run.prompt, text, 0, text.length) < text.length) continue;
      if (found === undefined || slot.used < found.used) found = slot;
    }
    return found?.run;
  }

  /** A request is over: its slot is free, with this content. */
  finish(run: SlotRun, kept: KeptPrompt): void {
    if (this.#state.slots[run.slot]?.run !== run) return;
    this.#state = withSlot(this.#state, run.slot, { kept, run: undefined, used: ++this.#uses });
    this.#undo = undefined;
  }

  /** Nothing came of a request: all is as before it, or at least its slot is, when others started since. */
  cancel(run: SlotRun): void {
    const slot = this.#state.slots[run.slot];
    if (slot?.run !== run) return;
    if (this.#undo?.run === run) this.#state = this.#undo.state;
    else this.#state = withSlot(this.#state, run.slot, { kept: run.from, run: undefined, used: slot.used });
    this.#undo = undefined;
  }

  /** What the engine does with a request: the slot it takes, what lies in it then, and what becomes of all others. */
  #chosen(root: string, prompt: Uint8Array): { readonly run: SlotRun; readonly state: SlotState } {
    const { slots } = this.#state;
    const free = freeSlots(slots);
    const similar = this.#mostSimilar(free, root, prompt);
    const index = similar?.index ?? longestUnused(slots, free);
    const keeps = similar !== undefined && similar.tokens >= KEEP_SHARE * lengthOf(slots[index]?.kept);
    let kept = slots[index]?.kept;
    let store = this.#state.store;
    if (!keeps && this.#rules.storeTokens > 0) {
      if (kept !== undefined) store = saved(store, kept, this.#rules.storeTokens);
      const found = bestStored(store, kept, root, prompt, this.#total);
      if (found !== undefined) {
        store = store.filter((each) => each !== found);
        kept = found;
      }
    }
    const { emptiesFree, savesFree = emptiesFree, storeTokens } = this.#rules;
    const others = free.filter((i) => i !== index);
    for (const i of savesFree && storeTokens > 0 ? others : []) {
      const other = slots[i]?.kept;
      if (other !== undefined) store = saved(store, other, storeTokens);
    }
    const emptied = emptiesFree ? others : [];
    const run = { root, prompt, slot: index, covered: common(kept, root, prompt), from: kept };
    const cleared = slots.map((slot, i) => (emptied.includes(i) ? { ...slot, kept: undefined } : slot));
    return { run, state: { slots: cleared, store: trimmed(store, storeTokens) } };
  }

  #shareOf(prompt: Uint8Array, covered: number, tokens: number): number {
    const share = (closely: boolean) => tokens / Math.max(1, this.#total(prompt, covered, tokens, closely));
    const roughly = share(false);
    const away = roughly / Math.max(1e-9, this.#rules.minShare);
    return away > NEAR_SHARE || away < 1 / NEAR_SHARE ? roughly : share(true);
  }

  /** The free slot with most of the prompt, when that is enough. */
  #mostSimilar(free: readonly number[], root: string, prompt: Uint8Array) {
    let best: { readonly index: number; readonly tokens: number; readonly share: number } | undefined;
    for (const index of free) {
      const kept = this.#state.slots[index]?.kept;
      if (kept === undefined) continue;
      const covered = common(kept, root, prompt);
      const tokens = keptTokens(kept, covered);
      const share = this.#shareOf(prompt, covered, tokens);
      if (share > this.#rules.minShare && share > (best?.share ?? 0)) best = { index, tokens, share };
    }
    return best;
  }
}

function emptyState({ count }: SlotRules): SlotState {
  const slot: Slot = { kept: undefined, run: undefined, used: -1 };
  return { slots: Array.from({ length: Math.max(1, count) }, () => slot), store: [] };
}

function withSlot(state: SlotState, index: number, slot: Slot): SlotState {
  return { ...state, slots: state.slots.map((each, i) => (i === index ? slot : each)) };
}

/** Slots that work on nothing. When all work, the request waits for the first that ends: most likely the oldest one. */
function freeSlots(slots: readonly Slot[]): readonly number[] {
  const free = slots.flatMap((slot, i) => (slot.run === undefined ? [i] : []));
  if (free.length > 0) return free;
  const oldest = slots.reduce((best, slot, i) => (slot.used < (slots[best]?.used ?? 0) ? i : best), 0);
  return [oldest];
}

/** Among equals the last one, as llama-server has it. */
function longestUnused(slots: readonly Slot[], free: readonly number[]): number {
  let best = free[0] ?? 0;
  for (const i of free) if ((slots[i]?.used ?? 0) <= (slots[best]?.used ?? 0)) best = i;
  return best;
}

/** The store with one more prompt; those that are its beginning go, and it is not put in when one has all of it, or it fits nowhere. */
function saved(store: readonly KeptPrompt[], kept: KeptPrompt, tokens: number): readonly KeptPrompt[] {
  if (lengthOf(kept) > tokens) return store;
  const reach = store.map((each) => common(each, kept.root, kept.bytes));
  if (reach.includes(kept.bytes.length)) return store;
  return [...store.filter((each, i) => reach[i]! < each.bytes.length), kept];
}

/** The oldest go until the rest fits. */
function trimmed(store: readonly KeptPrompt[], tokens: number): readonly KeptPrompt[] {
  let sum = store.reduce((total, each) => total + lengthOf(each), 0);
  let from = 0;
  while (from < store.length && (sum > tokens || store.length - from > MAX_STORED)) sum -= lengthOf(store[from++]);
  return from === 0 ? store : store.slice(from);
}

/** The stored prompt that is more of the new one, and goes on with more of itself, than the slot's content and all before it. */
function bestStored(
  store: readonly KeptPrompt[],
  base: KeptPrompt | undefined,
  root: string,
  prompt: Uint8Array,
  total: TotalTokens,
): KeptPrompt | undefined {
  const shares = (kept: KeptPrompt) => {
    const covered = common(kept, root, prompt);
    const tokens = keptTokens(kept, covered);
    return {
      keep: tokens / Math.max(1, lengthOf(kept)),
      of: tokens / Math.max(1, total(prompt, covered, tokens, false)),
    };
  };
  let best = base === undefined ? { keep: 0, of: 0 } : shares(base);
  let found: KeptPrompt | undefined;
  for (const kept of store) {
    const now = shares(kept);
    if (now.keep < LOAD_SHARE || now.keep <= best.keep || now.of <= best.of) continue;
    best = now;
    found = kept;
  }
  return found;
}

/** Bytes at the start of the prompt that are the same. */
function common(kept: KeptPrompt | undefined, root: string, prompt: Uint8Array): number {
  if (kept === undefined || kept.root !== root) return 0;
  return firstDifference(kept.bytes, prompt, 0, Math.min(kept.bytes.length, prompt.length));
}

function lengthOf(kept: KeptPrompt | undefined): number {
  return kept === undefined ? 0 : keptTokens(kept, kept.bytes.length);
}

/** Tokens that a run found: the last token of a prompt is always computed anew. */
function heldTokens({ from, covered, prompt }: SlotRun): number {
  if (from === undefined) return 0;
  return Math.max(0, keptTokens(from, covered) - (covered === prompt.length ? 1 : 0));
}

/** Token counts known of the part that a run continued. */
export function marksWithin({ from, covered }: SlotRun): readonly TokenMark[] {
  if (from === undefined || covered === 0) return [];
  const within = from.marks.filter((mark) => mark.byteLength <= covered);
  return within.at(-1)?.byteLength === covered
    ? within
    : [...within, { byteLength: covered, tokens: keptTokens(from, covered) }];
}
