//  connecting ─connected▶ replaying ─end▶ live ─hole▶ gap ─end▶ live
//  live ─quiet▶ (asks again, stays live) · any ─disconnected▶ connecting · never spoke ─tick▶ silent ─message▶ live

import type { KvEventBatch } from "../core/kv-event.ts";

/** One message of an engine's publisher. `batch` is undefined when its payload could not be decoded. */
export interface SourceMessage {
  readonly seq: number;
  readonly batch: KvEventBatch | undefined;
}

export type SourceInput =
  | { readonly type: "connected" }
  | { readonly type: "disconnected" }
  | ({ readonly type: "live" } & SourceMessage)
  | ({ readonly type: "reply"; readonly request: number } & SourceMessage)
  /** The end marker of a replay. */
  | { readonly type: "replay-end"; readonly request: number }
  /** Frames that are no message at all: no sequence number to be had. */
  | { readonly type: "garbage" }
  /** What the agent knows before the engine publishes it. */
  | { readonly type: "notice"; readonly what: "restarted" | "reset" }
  | { readonly type: "tick" };

/** What the owner must do, in order. */
export type SourceEffect =
  | { readonly do: "apply"; readonly batch: KvEventBatch }
  /** Forget all that this worker holds. */
  | { readonly do: "clear"; readonly why: string }
  /** Ask the replay endpoint for all messages from `from` on, and drop any older request. */
  | { readonly do: "request-replay"; readonly request: number; readonly from: number };

export interface SourcePolicy {
  /** A replay that says nothing for so long is over. */
  readonly replayMs: number;
  /** After so long without a message the last one is asked for again: finds a lost tail, and a restart that said nothing. */
  readonly checkMs: number;
  /** A source that never spoke for so long is `silent`. */
  readonly silentMs: number;
  /** Messages held back while a replay runs; more are dropped and asked for again. */
  readonly maxPending: number;
}

export const DEFAULT_SOURCE_POLICY: SourcePolicy = {
  replayMs: 3_000,
  checkMs: 10_000,
  silentMs: 60_000,
  maxPending: 20_000,
};

export type SourceAt = "connecting" | "replaying" | "live" | "gap" | "silent";

interface Replay {
  readonly request: number;
  readonly from: number;
  /** Engine clock of message `from` as we applied it: the proof that the same process answers. */
  readonly expectTs: number | undefined;
  /** `next` when it was asked, and whether a hole was known then. */
  readonly nextThen: number;
  readonly forHole: boolean;
  readonly replies: number;
  readonly by: number;
}

interface Pending {
  readonly message: SourceMessage;
  readonly rest: Pending | undefined;
}

/** The whole state of one event source; a plain value. Milliseconds are the owner's monotonic clock, `ts` the engine's. */
export interface SourceState {
  readonly at: SourceAt;
  /** For people: why it is there, and what would help. */
  readonly detail: string;
  readonly hasReplay: boolean;
  /** Sequence number that comes next. */
  readonly next: number;
  /** Engine clock of message `next - 1`; undefined when there is none or it was malformed. */
  readonly lastTs: number | undefined;
  /** Live messages not later than this are of a process that is gone; binds until `floorUntil`. */
  readonly floorTs: number;
  readonly floorUntil: number;
  /** Something was applied since the last clear. */
  readonly holding: boolean;
  readonly pending: Pending | undefined;
  readonly pendingCount: number;
  readonly pendingLowest: number;
  readonly replay: Replay | undefined;
  readonly requests: number;
  /** When the connection was last lost or first tried, and when something in order last came. */
  readonly since: number;
  readonly quietSince: number;
  readonly counts: Readonly<
    Record<"live" | "replied" | "applied" | "duplicates" | "gaps" | "unfilled" | "restarts" | "malformed", number>
  >;
}

/** A source that has not yet connected. */
export function initialSource(hasReplay: boolean, now: number): SourceState {
  return {
    at: "connecting",
    detail: "connecting",
    hasReplay,
    next: 0,
    lastTs: undefined,
    floorTs: Number.NEGATIVE_INFINITY,
    floorUntil: 0,
    holding: false,
    pending: undefined,
    pendingCount: 0,
    pendingLowest: Number.POSITIVE_INFINITY,
    replay: undefined,
    requests: 0,
    since: now,
    quietSince: now,
    counts: { live: 0, replied: 0, applied: 0, duplicates: 0, gaps: 0, unfilled: 0, restarts: 0, malformed: 0 },
  };
}

/** `SourceState` while one step works on its own copy. */
type Draft = { -readonly [K in keyof SourceState]: SourceState[K] } & {
  counts: { -readonly [K in keyof SourceState["counts"]]: number };
};

/** A step at work: the copy, what came out so far, and the clock. */
interface Work {
  readonly d: Draft;
  readonly out: SourceEffect[];
  readonly now: number;
  readonly p: SourcePolicy;
}

/**
 * Advance one event source by one input. Pure.
 *
 * What it promises: between two `clear` effects, the batches applied are consecutive messages of one engine process. Where
 * that cannot be kept (a hole that the engine no longer fills, a malformed message) the worker is cleared: knowing nothing
 * is better than lying.
 */
export function stepSource(
  state: SourceState,
  input: SourceInput,
  now: number,
  policy: SourcePolicy = DEFAULT_SOURCE_POLICY,
): readonly [SourceState, ...SourceEffect[]] {
  const w: Work = { d: { ...state, counts: { ...state.counts } }, out: [], now, p: policy };
  switch (input.type) {
    case "connected":
      if (w.d.at === "connecting" || w.d.at === "silent") connected(w);
      break;
    case "disconnected":
      disconnected(w);
      break;
    case "live":
      if (w.d.at === "connecting" || w.d.at === "silent") connected(w);
      w.d.counts.live++;
      live(w, input);
      break;
    case "reply":
      reply(w, input.request, input);
      break;
    case "replay-end":
      if (input.request === w.d.replay?.request) endReplay(w, false);
      break;
    case "garbage":
      w.d.counts.malformed++;
      w.d.detail = "frames that are no KV event message: is the endpoint an engine's event publisher?";
      break;
    case "notice":
      if (input.what === "restarted") restart(w, "the agent restarted the engine", w.d.lastTs);
      else clear(w, "the agent asked the engine to reset its cache");
      break;
    case "tick":
      tick(w);
      break;
  }
  return [w.d, ...w.out];
}

function connected(w: Work): void {
  w.d.quietSince = w.now;
  if (!w.d.hasReplay) return settle(w, "the engine replays nothing: what it stored before is not known");
  w.d.at = "replaying";
  w.d.detail = "asking for what was published so far";
  // Nothing is held after a malformed last message, and it can prove no identity: begin anew.
  if (w.d.lastTs === undefined) w.d.next = 0;
  requestReplay(w);
}

function disconnected(w: Work): void {
  if (w.d.at === "connecting") return;
  w.d.at = "connecting";
  w.d.detail = "connection lost";
  w.d.since = w.now;
  w.d.replay = undefined;
  // What was held back may be of a process that is gone; the next replay tells it again.
  dropPending(w.d);
  // With a replay endpoint, the next connection proves whether it is the same process; without, nothing can.
  if (!w.d.hasReplay) {
    clear(w, "connection lost, and the engine replays nothing");
    w.d.next = 0;
    w.d.lastTs = undefined;
  }
}

function live(w: Work, m: SourceMessage): void {
  const { d } = w;
  const ts = m.batch?.ts;
  if (ts !== undefined && ts <= d.floorTs && w.now < d.floorUntil) return duplicate(w);
  if (m.seq < d.next) {
    // An old or doubled message carries an old clock. A new process counts from 0 again under a later one.
    const newer = ts !== undefined && d.lastTs !== undefined && ts > d.lastTs;
    if (!newer) return duplicate(w);
    restart(w, "its sequence numbers run backwards: the engine was restarted", ts);
  }
  // Until the replay has proved which process speaks, live messages wait.
  const waits = d.at === "replaying" || d.at === "gap";
  if (m.seq === d.next && !waits) return inOrder(w, m);
  const fresh = !d.holding && d.counts.applied === 0 && !d.hasReplay;
  hold(w, m);
  if (fresh) return jump(w);
  openGap(w);
}

function reply(w: Work, request: number, m: SourceMessage): void {
  const { d } = w;
  const r = d.replay;
  if (r === undefined || request !== r.request) return;
  d.counts.replied++;
  d.replay = { ...r, replies: r.replies + 1, by: w.now + w.p.replayMs };
  const ts = m.batch?.ts;
  if (m.seq === r.from && r.expectTs !== undefined && ts !== r.expectTs) {
    return restart(w, "another process answers at its endpoint", Math.max(d.lastTs ?? r.expectTs, ts ?? r.expectTs));
  }
  if (m.seq < d.next) return;
  if (m.seq === d.next) return inOrder(w, m);
  hold(w, m);
  // Replies come in order, oldest first: what is missing before the first one is gone from the engine's buffer.
  if (r.replies === 0) unfillable(w);
}

/** Held-back messages that now follow are applied, lowest first. */
function inOrder(w: Work, m: SourceMessage): void {
  apply(w, m);
  if (w.d.pendingLowest <= w.d.next) drain(w);
  if (w.d.replay === undefined && w.d.pending === undefined && w.d.at === "gap") settle(w, "");
  if (w.d.at === "live" && m.batch !== undefined) w.d.detail = "";
}

function apply(w: Work, m: SourceMessage): void {
  const { d } = w;
  d.next = m.seq + 1;
  d.lastTs = m.batch?.ts;
  d.quietSince = w.now;
  if (m.batch === undefined) {
    d.counts.malformed++;
    // It may have told of removals: what is held is no longer sure.
    clear(w, `message ${m.seq} could not be decoded`);
    return;
  }
  d.counts.applied++;
  d.holding = true;
  w.out.push({ do: "apply", batch: m.batch });
}

function hold(w: Work, m: SourceMessage): void {
  const { d } = w;
  // Dropped ones show as a hole later, and are asked for again.
  if (d.pendingCount >= w.p.maxPending) return;
  d.pending = { message: m, rest: d.pending };
  d.pendingCount++;
  d.pendingLowest = Math.min(d.pendingLowest, m.seq);
}

function drain(w: Work): void {
  const { d } = w;
  const sorted: SourceMessage[] = [];
  for (let p = d.pending; p !== undefined; p = p.rest) sorted.push(p.message);
  sorted.sort((a, b) => a.seq - b.seq);
  dropPending(d);
  for (const m of sorted) {
    if (m.seq < d.next) w.d.counts.duplicates++;
    else if (m.seq === d.next) apply(w, m);
    else hold(w, m);
  }
}

function dropPending(d: Draft): void {
  d.pending = undefined;
  d.pendingCount = 0;
  d.pendingLowest = Number.POSITIVE_INFINITY;
}

function openGap(w: Work): void {
  const { d } = w;
  // While the first replay or another gap's runs, holes are expected: its end settles them.
  if (d.at !== "live") return;
  d.counts.gaps++;
  d.at = "gap";
  d.detail = `messages ${d.next} to ${d.pendingLowest - 1} are missing`;
  if (d.replay !== undefined) return;
  if (d.hasReplay) return requestReplay(w);
  unfillable(w);
  settle(w, d.detail);
}

/** The hole before the lowest held message stays: forget, and go on from there. */
function unfillable(w: Work): void {
  const { d } = w;
  const hole = `messages ${d.next} to ${d.pendingLowest - 1} are lost: the engine no longer has them`;
  if (d.holding) {
    d.counts.unfilled++;
    clear(w, hole);
  }
  d.detail = hole;
  jump(w);
}

function jump(w: Work): void {
  w.d.next = w.d.pendingLowest;
  w.d.lastTs = undefined;
  drain(w);
}

function endReplay(w: Work, timedOut: boolean): void {
  const { d } = w;
  const r = d.replay;
  if (r === undefined) return;
  d.replay = undefined;
  d.quietSince = w.now;
  if (r.replies === 0 && r.expectTs !== undefined && !timedOut) {
    return restart(w, "the engine does not know what it published: it was restarted", d.lastTs);
  }
  drain(w);
  while (d.pending !== undefined) {
    // A slow reader may lose replies in the middle, and a hole may be younger than the request: ask again while that helps.
    if (d.hasReplay && !(timedOut && r.replies === 0) && (d.next > r.nextThen || !r.forHole)) return requestReplay(w);
    unfillable(w);
  }
  if (timedOut && r.replies === 0) return settle(w, "its replay endpoint does not answer: older events are not known");
  if (d.counts.live === 0 && d.counts.applied > 0 && r.from > 0 && r.replies > 1) {
    d.at = "silent";
    d.detail = "only its replay endpoint speaks, live messages never came: does the topic differ?";
    return;
  }
  settle(w, d.counts.applied === 0 ? "connected, nothing published yet" : "");
}

function restart(w: Work, why: string, floorTs: number | undefined): void {
  const { d } = w;
  d.counts.restarts++;
  clear(w, why);
  dropPending(d);
  d.next = 0;
  d.lastTs = undefined;
  // Live messages of the old process may still be on their way; replies come from the new one only.
  d.floorTs = Math.max(d.floorTs, floorTs ?? d.floorTs);
  d.floorUntil = w.now + w.p.checkMs;
  if (!d.hasReplay || d.at === "connecting") return;
  d.at = "replaying";
  requestReplay(w);
}

function requestReplay(w: Work): void {
  const { d } = w;
  // From the last known one, not the one after: if it comes back the same, the same process answers.
  const from = Math.max(0, d.next - 1);
  d.requests++;
  d.replay = {
    request: d.requests,
    from,
    expectTs: d.next > 0 ? d.lastTs : undefined,
    nextThen: d.next,
    forHole: d.pending !== undefined,
    replies: 0,
    by: w.now + w.p.replayMs,
  };
  w.out.push({ do: "request-replay", request: d.requests, from });
}

function tick(w: Work): void {
  const { d } = w;
  if (d.replay !== undefined && w.now >= d.replay.by) endReplay(w, true);
  const spoke = d.counts.live + d.counts.replied > 0;
  if (!spoke && d.at === "connecting" && w.now - d.since >= w.p.silentMs) {
    d.at = "silent";
    d.detail = "nothing listens at its endpoint: is the engine started with KV events on, and the endpoint right?";
  } else if (!spoke && d.at === "live" && !d.hasReplay && w.now - d.since >= w.p.silentMs) {
    d.at = "silent";
    d.detail = "connected, but it never spoke: idle, or prefix caching or KV events are off, or the topic differs";
  }
  const quiet = w.now - d.quietSince >= w.p.checkMs;
  const open = d.at === "live" || (d.at === "silent" && spoke);
  if (quiet && open && d.hasReplay && d.replay === undefined) requestReplay(w);
}

function clear(w: Work, why: string): void {
  w.d.detail = why;
  if (w.d.holding) w.out.push({ do: "clear", why });
  w.d.holding = false;
}

function duplicate(w: Work): void {
  w.d.counts.duplicates++;
}

function settle(w: Work, detail: string): void {
  w.d.at = "live";
  w.d.detail = detail;
}
