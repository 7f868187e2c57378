//  connecting ─connected▶ replaying ─end▶ live ─hole▶ gap ─end▶ live
//  live ─quiet▶ (asks again, stays live) · any ─disconnected▶ connecting · never spoke ─tick▶ silent ─message▶ live
//  any ─mostly bad messages▶ failed ─tick, later and later▶ as after a new connection

import { popMessage } from "./message-heap.ts";
import {
  DEFAULT_SOURCE_POLICY,
  type SourceEffect,
  type SourceInput,
  type SourceMessage,
  type SourcePolicy,
  type SourceState,
} from "./source-state.ts";
import { clear, countMalformed, dropPending, duplicate, hold, lowest, settle, type Work } from "./source-work.ts";

/**
 * Advance one event source by one input. Pure.
 *
 * What it promises: between two `clear` effects, the batches applied are consecutive messages of one engine process. Where
 * that cannot be kept (a hole that the engine no longer fills, a malformed message) the worker is cleared: knowing nothing
 * is better than lying.
 *
 * Costs the logarithm of what is held back for each message, whatever its sequence number: nobody can make it do more by
 * jumping about. Effects of one step are at most as many as messages were held back.
 */
export function stepSource(
  state: SourceState,
  input: SourceInput,
  now: number,
  policy: SourcePolicy = DEFAULT_SOURCE_POLICY,
): readonly [SourceState, ...SourceEffect[]] {
  const w: Work = { d: { ...state, counts: { ...state.counts } }, out: [], now, p: policy };
  if (w.d.at === "failed") {
    whileFailed(w, input);
    return [w.d, ...w.out];
  }
  switch (input.type) {
    case "connected":
      w.d.linked = true;
      if (w.d.at === "connecting" || w.d.at === "silent") connected(w);
      break;
    case "disconnected":
      disconnected(w);
      break;
    case "live":
      w.d.linked = true;
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
      w.d.trouble++;
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
  if (w.d.trouble >= w.p.maxTrouble) fail(w);
  return [w.d, ...w.out];
}

/** Nothing it says counts, until the time is over; then it is met anew. */
function whileFailed(w: Work, input: SourceInput): void {
  const { d } = w;
  if (input.type === "live") d.counts.live++;
  else if (input.type === "garbage") d.counts.malformed++;
  else if (input.type === "connected") d.linked = true;
  else if (input.type === "disconnected") d.linked = false;
  else if (input.type === "notice") {
    // Another process, or an emptied one, may speak better.
    d.failures = 0;
    d.retryAt = w.now;
  } else if (input.type === "tick" && w.now >= d.retryAt) {
    d.at = "connecting";
    d.detail = "connecting";
    d.since = w.now;
    if (d.linked) connected(w);
  }
}

function fail(w: Work): void {
  const { d, p } = w;
  const ms = Math.min(p.failMaxMs, p.failMs * 2 ** d.failures);
  const why = `most of its messages make no sense (the last: ${d.detail || "a restart or a hole"})`;
  clear(w, `${why}; it is looked at again in ${Math.round(ms / 1_000)} s`);
  dropPending(d);
  d.at = "failed";
  d.replay = undefined;
  d.next = 0;
  d.lastTs = undefined;
  d.trouble = 0;
  d.good = 0;
  d.failures++;
  d.retryAt = w.now + ms;
}

function connected(w: Work): void {
  w.d.quietSince = w.now;
  if (!w.d.hasReplay) {
    settle(w, "the engine replays nothing: what it stored before is not known");
    return;
  }
  w.d.at = "replaying";
  w.d.detail = "asking for what was published so far";
  // Nothing is held after a malformed last message, and it can prove no identity: begin anew.
  if (w.d.lastTs === undefined) w.d.next = 0;
  requestReplay(w);
}

function disconnected(w: Work): void {
  w.d.linked = false;
  w.d.spoke = false;
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
  if (ts !== undefined && ts <= d.floorTs && w.now < d.floorUntil) {
    duplicate(w);
    return;
  }
  if (m.seq < d.next) {
    // An old or doubled message carries an old clock. A new process counts from 0 again under a later one.
    const newer = ts !== undefined && d.lastTs !== undefined && ts > d.lastTs;
    if (!newer) {
      duplicate(w);
      return;
    }
    d.trouble++;
    restart(w, "its sequence numbers run backwards: the engine was restarted", ts);
  }
  d.spoke = true;
  // Until the replay has proved which process speaks, live messages wait.
  countMalformed(w, m);
  const waits = d.at === "replaying" || d.at === "gap";
  if (m.seq === d.next && !waits) {
    inOrder(w, m);
    return;
  }
  const fresh = !d.holding && d.counts.applied === 0 && !d.hasReplay;
  hold(w, m);
  if (fresh) {
    jump(w);
    return;
  }
  openGap(w);
}

function reply(w: Work, request: number, m: SourceMessage): void {
  const { d } = w;
  const r = d.replay;
  if (r === undefined || request !== r.request) return;
  d.counts.replied++;
  d.replay = { ...r, replies: r.replies + 1, proved: r.proved || m.seq === r.from, by: w.now + w.p.replayMs };
  const ts = m.batch?.ts;
  if (m.seq === r.from && r.expectTs !== undefined && ts !== r.expectTs) {
    restart(w, "another process answers at its endpoint", Math.max(d.lastTs ?? r.expectTs, ts ?? r.expectTs));
    return;
  }
  if (m.seq === r.from) d.proving = false;
  else if (d.proving && m.seq > r.from) unproved(w, "the engine no longer has the message that would prove it");
  if (m.seq < d.next) return;
  countMalformed(w, m);
  if (m.seq === d.next && !lacksProof(w)) {
    inOrder(w, m);
    return;
  }
  hold(w, m);
  // The one that proves who answers was lost or is gone: another process may have one of this number too.
  if (m.seq === d.next) return;
  // Replies come in order, oldest first: what is missing before the first one is gone from the engine's buffer.
  if (r.replies === 0) unfillable(w);
}

/** Held-back messages that now follow are applied, lowest first. */
function inOrder(w: Work, m: SourceMessage): void {
  apply(w, m);
  drain(w);
  if (w.d.replay === undefined && w.d.pending === undefined && w.d.at === "gap") settle(w, "");
  if (w.d.at === "live" && m.batch !== undefined) w.d.detail = "";
}

function apply(w: Work, m: SourceMessage): void {
  const { d, p } = w;
  d.next = m.seq + 1;
  d.lastTs = m.batch?.ts;
  d.quietSince = w.now;
  if (m.batch === undefined) {
    // It may have told of removals: what is held is no longer sure.
    clear(w, `message ${m.seq} could not be decoded`);
    return;
  }
  d.counts.applied++;
  d.trouble = Math.max(0, d.trouble - 1);
  if (++d.good >= p.maxTrouble) d.failures = 0;
  d.holding = true;
  w.out.push({ do: "apply", seq: m.seq, batch: m.batch });
}

/** Apply held-back messages as long as they follow. */
function drain(w: Work): void {
  const { d } = w;
  while (d.pending !== undefined && d.pending.message.seq <= d.next) {
    const { message } = d.pending;
    d.pending = popMessage(d.pending);
    if (message.seq < d.next) d.counts.duplicates++;
    else apply(w, message);
  }
}

function openGap(w: Work): void {
  const { d } = w;
  // While the first replay or another gap's runs, holes are expected: its end settles them.
  if (d.at !== "live") return;
  d.counts.gaps++;
  d.at = "gap";
  d.detail = `messages ${d.next} to ${lowest(d) - 1} are missing`;
  if (d.replay !== undefined) return;
  if (d.hasReplay) {
    requestReplay(w);
    return;
  }
  unfillable(w);
  settle(w, d.detail);
}

/** The hole before the lowest held message stays: forget, and go on from there. */
function unfillable(w: Work): void {
  const { d } = w;
  if (lowest(d) <= d.next) {
    // What comes next is held already (the answer that told it again was lost): nothing is missing before it.
    drain(w);
    return;
  }
  const hole = `messages ${d.next} to ${lowest(d) - 1} are lost: the engine no longer has them`;
  if (d.holding) {
    d.counts.unfilled++;
    d.trouble++;
    clear(w, hole);
  }
  d.detail = hole;
  jump(w);
}

function jump(w: Work): void {
  w.d.next = lowest(w.d);
  w.d.lastTs = undefined;
  drain(w);
}

function endReplay(w: Work, timedOut: boolean): void {
  const { d } = w;
  const r = d.replay;
  if (r === undefined) return;
  const isUnproved = lacksProof(w);
  d.replay = undefined;
  d.quietSince = w.now;
  const mute = r.replies === 0 && r.expectTs !== undefined && !timedOut;
  // Who had spoken over this very connection is no other process: it only keeps nothing to replay.
  if (mute && !r.spoke) {
    restart(w, "the engine does not know what it published: it was restarted", d.lastTs);
    return;
  }
  if (d.proving) unproved(w, timedOut ? "the replay endpoint does not answer" : "the engine does not tell it again");
  if (isUnproved && r.replies > 0 && d.pending !== undefined && lowest(d) === d.next) {
    if (!r.second && r.round < w.p.maxReplays) {
      requestReplay(w, true, r.round + 1);
      return;
    }
    clear(w, "the engine no longer tells the message that would prove that it was not restarted");
    d.lastTs = undefined;
  }
  drain(w);
  while (d.pending !== undefined) {
    // A slow reader may lose replies in the middle, and a hole may be younger than the request: ask again while that
    // helps, and once more when it did not.
    const useful = d.next > r.nextThen || !r.forHole;
    const answers = !(timedOut && r.replies === 0);
    if (d.hasReplay && answers && r.round < w.p.maxReplays && (useful || !r.second)) {
      requestReplay(w, !useful, r.round + 1);
      return;
    }
    unfillable(w);
  }
  if (timedOut && r.replies === 0) {
    settle(w, "its replay endpoint does not answer: older events are not known");
    return;
  }
  if (mute) {
    settle(w, "its replay endpoint keeps nothing: lost messages cannot be had again. Give it a longer replay buffer");
    return;
  }
  if (d.counts.live === 0 && d.counts.applied > 0 && r.from > 0 && r.request > 1 && r.replies > 1) {
    d.at = "silent";
    d.detail = "only its replay endpoint speaks, live messages never came: does the topic differ?";
    return;
  }
  settle(w, d.counts.applied === 0 ? "connected, nothing published yet" : "");
}

/** Whether what is asked now has not told yet who answers, and nothing was learnt of him otherwise. */
function lacksProof({ d }: Work): boolean {
  const r = d.replay;
  return r !== undefined && r.expectTs !== undefined && !r.proved && d.next === r.nextThen;
}

/** What another run wrote down may be of a process that is gone, or miss events: it is not believed. */
function unproved(w: Work, why: string): void {
  clear(w, `what a snapshot said is dropped: ${why}`);
  w.d.next = 0;
  w.d.lastTs = undefined;
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

function requestReplay(w: Work, second = false, round = 0): void {
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
    second,
    round,
    replies: 0,
    proved: false,
    spoke: d.spoke,
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
