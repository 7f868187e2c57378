import { keptPrompt, SlotCache, type SlotRun } from "../../../kvindex/slot-cache.ts";
import type { EngineLimits } from "../../model/limits.ts";
import { settingsOf } from "./llama-settings.ts";

type Body = Readonly<Record<string, unknown>>;

/** A request in a slot. */
export interface Seat {
  readonly slot: number;
  readonly task: number;
  readonly run: SlotRun;
  readonly prompt: readonly number[];
  readonly cached: number;
  readonly settings: object;
  generated: number;
}

interface Place {
  /** Undefined before the first request. */
  last: Seat | undefined;
  busy: boolean;
  kept: readonly number[];
}

/**
 * What `/slots` shows: which request is in which slot, and how much each slot keeps. Slots are chosen by the rules that the
 * engine model follows too (kvindex/slot-cache.ts); a slot that a request names (`id_slot`) is shown as its own.
 */
export class SlotBoard {
  readonly #cache: SlotCache;
  readonly #places: readonly Place[];
  readonly #saved = new Map<string, readonly number[]>();
  readonly #contextTokens: number;
  #tasks = 0;

  constructor(limits: EngineLimits, contextTokens: number) {
    const count = limits.maxSequences;
    const rules = {
      count,
      minShare: limits.slots?.minShare ?? 0.1,
      storeTokens: limits.slots?.storeTokens ?? 0,
      emptiesFree: limits.slots?.emptiesFree ?? false,
      savesFree: limits.slots?.savesFree ?? limits.slots?.emptiesFree ?? false,
    };
    this.#cache = new SlotCache(rules, (prompt) => prompt.length);
    this.#places = Array.from({ length: count }, () => ({ last: undefined, busy: false, kept: [] }));
    this.#contextTokens = contextTokens;
  }

  get count(): number {
    return this.#places.length;
  }

  get processing(): number {
    return this.#places.filter(({ busy }) => busy).length;
  }

  /** A request starts in a slot. */
  sit(prompt: readonly number[], body: Body, facts: Parameters<typeof settingsOf>[1]): Seat {
    const run = this.#cache.start("", Uint8Array.from(prompt));
    const asked = body["id_slot"];
    const named = typeof asked === "number" && asked >= 0 && asked < this.count ? asked : undefined;
    const slot = named ?? run.slot;
    const settings = settingsOf(body, facts, false);
    const cached = Math.max(0, Math.min(run.covered, prompt.length - 1));
    const seat: Seat = { slot, task: this.#tasks, run, prompt, cached, settings, generated: 0 };
    this.#tasks += 2 + (prompt.length % 3);
    const place = this.#places[slot]!;
    place.last = seat;
    place.busy = true;
    return seat;
  }

  /** It is over, `text` generated. */
  leave(seat: Seat, output: readonly number[]): void {
    // The last token was never fed back.
    const kept = [...seat.prompt, ...output.slice(0, -1)];
    this.#cache.finish(
      seat.run,
      keptPrompt("", Uint8Array.from(kept), [{ byteLength: kept.length, tokens: kept.length }]),
    );
    const place = this.#places[seat.slot]!;
    place.kept = kept;
    if (place.last === seat) place.busy = false;
  }

  /** `n_erased`; an id that is not there wraps as in the real one, which erases what it then is. */
  erase(id: number): number {
    const place = this.#places[id];
    if (place === undefined) return 0;
    const erased = place.kept.length;
    place.kept = [];
    return erased;
  }

  /** @returns tokens written */
  save(id: number, filename: string): number {
    const kept = this.#places[id]?.kept ?? [];
    this.#saved.set(filename, kept);
    return kept.length;
  }

  /** @returns tokens read, or undefined when there is no such file */
  restore(id: number, filename: string): number | undefined {
    const kept = this.#saved.get(filename);
    const place = this.#places[id];
    if (kept !== undefined && place !== undefined) place.kept = kept;
    return kept?.length;
  }

  /** `/slots` */
  list(): readonly object[] {
    return this.#places.map(({ last, busy, kept }, id) => ({
      id,
      n_ctx: this.#contextTokens,
      speculative: false,
      is_processing: busy,
      ...(last === undefined ? {} : told(last, busy, kept.length)),
    }));
  }
}

function told(seat: Seat, busy: boolean, kept: number): object {
  return {
    id_task: seat.task,
    n_prompt_tokens: busy ? seat.prompt.length : kept,
    n_prompt_tokens_processed: busy ? seat.prompt.length - seat.cached : 0,
    n_prompt_tokens_cache: busy ? seat.cached : 0,
    params: seat.settings,
    next_token: [{ has_next_token: busy, has_new_line: false, n_remain: -1, n_decoded: busy ? seat.generated : 0 }],
  };
}

/** Bytes of a saved slot: a head, and what SmolLM2-135M's keys and values take. */
export const savedBytes = (tokens: number): number => 48 + tokens * 23_075;
