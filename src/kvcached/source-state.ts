import type { KvEventBatch } from "../core/kv-event.ts";
import type { MessageHeap } from "./message-heap.ts";

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
  | { readonly do: "apply"; readonly seq: number; readonly batch: KvEventBatch }
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
  /** Replays asked for one after the other to fill holes; what is missing then is given up at once. */
  readonly maxReplays: number;
  /** A source with so many more bad messages than good ones has failed. */
  readonly maxTrouble: number;
  /** After a failure the source is left alone for so long, twice as long each time, up to the second. */
  readonly failMs: number;
  readonly failMaxMs: number;
}

export const DEFAULT_SOURCE_POLICY: SourcePolicy = {
  replayMs: 3_000,
  checkMs: 10_000,
  silentMs: 60_000,
  maxPending: 20_000,
  maxReplays: 8,
  maxTrouble: 32,
  failMs: 1_000,
  failMaxMs: 60_000,
};

/** `failed`: what it says is mostly no sense, so it is not listened to for a while. */
export type SourceAt = "connecting" | "replaying" | "live" | "gap" | "silent" | "failed";

interface Replay {
  readonly request: number;
  readonly from: number;
  /** Engine clock of message `from` as we applied it: the proof that the same process answers. */
  readonly expectTs: number | undefined;
  /** That message came. */
  readonly proved: boolean;
  /** It had spoken over this connection when it was asked. */
  readonly spoke: boolean;
  /** `next` when it was asked, and whether a hole was known then. */
  readonly nextThen: number;
  readonly forHole: boolean;
  /** It repeats one that brought nothing new. */
  readonly second: boolean;
  /** Replays before it that were asked for the same holes. */
  readonly round: number;
  readonly replies: number;
  readonly by: number;
}

/** Where a source stood: to go on from there in another run. */
export interface ResumePoint {
  /** Sequence number that comes next; above 0. */
  readonly next: number;
  /** Engine clock of the message before it: the proof that the same process answers. */
  readonly lastTs: number;
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
  /** What is held is what another run wrote down; the engine has not shown yet that it is still the same process. */
  readonly proving: boolean;
  /** Messages held back. */
  readonly pending: MessageHeap | undefined;
  readonly replay: Replay | undefined;
  readonly requests: number;
  /** When the connection was last lost or first tried, and when something in order last came. */
  readonly since: number;
  readonly quietSince: number;
  /** There is a connection. */
  readonly linked: boolean;
  /** A live message that is not an old one came over this connection. */
  readonly spoke: boolean;
  /** Bad messages less good ones, not below zero, and good ones since the last failure. */
  readonly trouble: number;
  readonly good: number;
  /** Failures without a good stretch between them, and when the last one is over. */
  readonly failures: number;
  readonly retryAt: number;
  readonly counts: Readonly<
    Record<"live" | "replied" | "applied" | "duplicates" | "gaps" | "unfilled" | "restarts" | "malformed", number>
  >;
}

/**
 * A source that has not yet connected.
 * @param resume - what another run held up to here is held; without a replay nothing could prove it, and it is void
 */
export function initialSource(hasReplay: boolean, now: number, resume?: ResumePoint): SourceState {
  const resumes = hasReplay && resume !== undefined;
  return {
    at: "connecting",
    detail: "connecting",
    hasReplay,
    next: resumes ? resume.next : 0,
    lastTs: resumes ? resume.lastTs : undefined,
    floorTs: Number.NEGATIVE_INFINITY,
    floorUntil: 0,
    holding: resumes,
    proving: resumes,
    pending: undefined,
    replay: undefined,
    requests: 0,
    since: now,
    quietSince: now,
    linked: false,
    spoke: false,
    trouble: 0,
    good: 0,
    failures: 0,
    retryAt: 0,
    counts: { live: 0, replied: 0, applied: 0, duplicates: 0, gaps: 0, unfilled: 0, restarts: 0, malformed: 0 },
  };
}
