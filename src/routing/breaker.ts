/**
 * A circuit breaker of one worker, as a pure state machine: what requests met there goes in, whether it should get more comes
 * out. Times are monotonic milliseconds, passed in.
 *
 * `closed` it gets requests · `open` it gets none while others can take them · `half-open` it looks well again and gets one
 * request at a time, whose end decides.
 */
export type Breaker =
  | {
      readonly at: "closed";
      /** Failures since the last success. */
      readonly run: number;
      /** Failures and results since the first failure, fading; `markMs` is when they were last counted. */
      readonly failures: number;
      readonly results: number;
      readonly markMs: number;
      /** How often it opened in a row, and when it closed last: one that opens again soon stays open longer. */
      readonly opened: number;
      readonly closedMs: number;
    }
  | {
      readonly at: "open";
      readonly sinceMs: number;
      /** When it is looked at again. */
      readonly untilMs: number;
      readonly opened: number;
      /** What the last failure was, for people. */
      readonly reason: string;
    }
  | {
      readonly at: "half-open";
      readonly sinceMs: number;
      /** The one request that decides is on its way. */
      readonly trial: boolean;
      readonly opened: number;
      readonly reason: string;
    };

/** What happens to a breaker. `startedMs`: when the request began that tells it. */
export type BreakerEvent =
  /** A request was sent there. */
  | { readonly type: "begun" }
  /** It was answered, or its first token came. */
  | { readonly type: "good"; readonly startedMs: number }
  /** It failed by the worker's fault. `sure`: nobody is there (connection refused), no second sign is needed. */
  | { readonly type: "bad"; readonly startedMs: number; readonly sure: boolean; readonly reason: string }
  /** It ended without telling anything of the worker (the client left). */
  | { readonly type: "untold"; readonly startedMs: number }
  /** An active look at a worker whose breaker is open. */
  | { readonly type: "looked"; readonly ok: boolean }
  /** Another process answers there now. */
  | { readonly type: "restarted" };

/** So many failures in a row open it. */
export const RUN_LIMIT = 5;
/** Or this share of failures, among at least so many results of the last half minute or so. */
export const SHARE_LIMIT = 0.5;
export const SHARE_RESULTS = 10;
const HALF_LIFE_MS = 15_000;
/** How long it stays open the first time; twice as long each time in a row. */
export const OPEN_MS = 1_000;
export const OPEN_MAX_MS = 30_000;
/** Closed for so long, the past is forgiven. */
const FORGIVE_MS = 60_000;

export const CLOSED: Breaker & { at: "closed" } = {
  at: "closed",
  run: 0,
  failures: 0,
  results: 0,
  markMs: 0,
  opened: 0,
  closedMs: Number.NEGATIVE_INFINITY,
};

/**
 * The next state.
 *
 * @param random 0 to 1: routers that saw the same failure do not all come back at the same moment
 * @returns the same object where nothing changes
 */
export function stepBreaker(state: Breaker, event: BreakerEvent, nowMs: number, random: number): Breaker {
  if (event.type === "restarted") return CLOSED;
  if (state.at === "closed") return stepClosed(state, event, nowMs, random);
  if (state.at === "open") return stepOpen(state, event, nowMs, random);
  return stepHalfOpen(state, event, nowMs, random);
}

/** May a request go there, when others could take it too? */
export function admits(state: Breaker): boolean {
  return state.at === "closed" || (state.at === "half-open" && !state.trial);
}

function stepClosed(state: Breaker & { at: "closed" }, event: BreakerEvent, nowMs: number, random: number): Breaker {
  if (event.type === "good") {
    if (state.failures === 0) return state;
    const { failures, results } = faded(state, nowMs);
    // A failure that has faded away is none: healthy workers count nothing.
    if (failures < 0.05) return { ...CLOSED, opened: state.opened, closedMs: state.closedMs };
    return { ...state, run: 0, failures, results: results + 1, markMs: nowMs };
  }
  if (event.type !== "bad") return state;
  const past = faded(state, nowMs);
  const failures = past.failures + 1;
  const results = past.results + 1;
  const run = state.run + 1;
  const share = results >= SHARE_RESULTS && failures / results >= SHARE_LIMIT;
  if (event.sure || run >= RUN_LIMIT || share) {
    const again = nowMs - state.closedMs < FORGIVE_MS ? state.opened : 0;
    return open(again, event.reason, nowMs, random);
  }
  return { ...state, run, failures, results, markMs: nowMs };
}

/** Answers to requests from before say nothing: only one that began since it opened (all workers were open) closes it. */
function stepOpen(state: Breaker & { at: "open" }, event: BreakerEvent, nowMs: number, random: number): Breaker {
  if (event.type === "good") return event.startedMs >= state.sinceMs ? closed(state.opened, nowMs) : state;
  if (event.type !== "looked" || nowMs < state.untilMs) return state;
  if (!event.ok) return open(state.opened, state.reason, nowMs, random);
  return { at: "half-open", sinceMs: nowMs, trial: false, opened: state.opened, reason: state.reason };
}

function stepHalfOpen(
  state: Breaker & { at: "half-open" },
  event: BreakerEvent,
  nowMs: number,
  random: number,
): Breaker {
  if (event.type === "begun") return state.trial ? state : { ...state, trial: true };
  if (!("startedMs" in event) || event.startedMs < state.sinceMs) return state;
  if (event.type === "good") return closed(state.opened, nowMs);
  if (event.type === "bad") return open(state.opened, event.reason, nowMs, random);
  return { ...state, trial: false };
}

function closed(opened: number, nowMs: number): Breaker {
  return { ...CLOSED, opened, closedMs: nowMs };
}

function open(openedBefore: number, reason: string, nowMs: number, random: number): Breaker {
  const ms = Math.min(OPEN_MAX_MS, OPEN_MS * 2 ** Math.min(openedBefore, 10));
  // Between three quarters and all of it.
  const untilMs = nowMs + ms * (0.75 + random / 4);
  return { at: "open", sinceMs: nowMs, untilMs, opened: openedBefore + 1, reason };
}

function faded(state: Breaker & { at: "closed" }, nowMs: number): { failures: number; results: number } {
  if (state.failures === 0) return { failures: 0, results: 0 };
  const left = 0.5 ** (Math.max(0, nowMs - state.markMs) / HALF_LIFE_MS);
  return { failures: state.failures * left, results: state.results * left };
}
