import { pushMessage } from "./message-heap.ts";
import type { SourceEffect, SourceMessage, SourcePolicy, SourceState } from "./source-state.ts";

/** `SourceState` while one step works on its own copy. */
export type Draft = { -readonly [K in keyof SourceState]: SourceState[K] } & {
  counts: { -readonly [K in keyof SourceState["counts"]]: number };
};

/** A step at work: the copy, what came out so far, and the clock. */
export interface Work {
  readonly d: Draft;
  readonly out: SourceEffect[];
  readonly now: number;
  readonly p: SourcePolicy;
}

/** Keep a message that is ahead of its turn. */
export function hold(w: Work, m: SourceMessage): void {
  const { d } = w;
  // Dropped ones show as a hole later, and are asked for again.
  if ((d.pending?.count ?? 0) < w.p.maxPending) d.pending = pushMessage(d.pending, m);
}

/** Forget what is held back. */
export function dropPending(d: Draft): void {
  d.pending = undefined;
}

/** What the worker holds is no longer sure. */
export function clear(w: Work, why: string): void {
  w.d.detail = why;
  if (w.d.holding) {
    // What this step was to apply before would be forgotten at once.
    const asked = w.out.filter((effect) => effect.do === "request-replay");
    w.out.splice(0, w.out.length, ...asked, { do: "clear", why });
  }
  w.d.holding = false;
  w.d.proving = false;
}

/** Count a message whose payload makes no sense. */
export function countMalformed(w: Work, m: SourceMessage): void {
  if (m.batch !== undefined) return;
  w.d.counts.malformed++;
  w.d.trouble++;
}

/** It came before. */
export function duplicate(w: Work): void {
  w.d.counts.duplicates++;
}

/** Nothing is missing, as far as is known. */
export function settle(w: Work, detail: string): void {
  w.d.at = "live";
  w.d.detail = detail;
}

/** The lowest sequence number held back. */
export const lowest = (d: Draft): number => d.pending?.message.seq ?? Number.POSITIVE_INFINITY;
