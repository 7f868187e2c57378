import type { KvTruthWindow } from "../core/kv-status.ts";

/** Sums over one stretch of time. */
interface Bucket {
  /** Number of the stretch since time 0. */
  readonly at: number;
  readonly requests: number;
  readonly exact: number;
  /** Wrong ones that an event explains which came late, and those that nothing explains. */
  readonly inFlight: number;
  readonly unexplained: number;
  readonly predicted: number;
  readonly reported: number;
}

/** Predicted against reported tokens over the last hour, in stretches of 10 s; a plain value. */
export interface TruthHistory {
  /** The stretch under way; apart, so that a request does not copy all of them. */
  readonly last: Bucket | undefined;
  /** Newest first. */
  readonly before: readonly Bucket[];
}

export const NO_HISTORY: TruthHistory = { last: undefined, before: [] };

const BUCKET_MS = 10_000;
/** What is shown: a minute, ten minutes, an hour. */
export const TRUTH_WINDOWS_S = [60, 600, 3_600] as const;
const KEPT = TRUTH_WINDOWS_S[2] / (BUCKET_MS / 1000);

/** Count one request. `now` in milliseconds, not before the one of the call before. */
export function countTruth(history: TruthHistory, predicted: number, reported: number, now: number): TruthHistory {
  return grown(history, now, ({ requests, exact, ...of }) => ({
    ...of,
    requests: requests + 1,
    exact: exact + (predicted === reported ? 1 : 0),
    predicted: of.predicted + predicted,
    reported: of.reported + reported,
  }));
}

/** Count what became of a request whose prediction was wrong; it may have been counted a stretch before. */
export function countVerdict(history: TruthHistory, result: "in_flight" | "unexplained", now: number): TruthHistory {
  return grown(history, now, (of) =>
    result === "in_flight" ? { ...of, inFlight: of.inFlight + 1 } : { ...of, unexplained: of.unexplained + 1 },
  );
}

function grown({ last, before }: TruthHistory, now: number, grow: (bucket: Bucket) => Bucket): TruthHistory {
  const at = Math.floor(now / BUCKET_MS);
  if (last?.at === at) return { last: grow(last), before };
  const bucket = grow({ at, requests: 0, exact: 0, inFlight: 0, unexplained: 0, predicted: 0, reported: 0 });
  const past = last === undefined ? before : [last, ...before];
  return { last: bucket, before: past.filter((each) => each.at > at - KEPT) };
}

/** The sums over the last `seconds`, the stretch under way included. */
export function truthOver(history: TruthHistory, seconds: number, now: number): KvTruthWindow {
  const from = Math.floor(now / BUCKET_MS) - (seconds * 1000) / BUCKET_MS;
  const sum = { seconds, requests: 0, exact: 0, inFlight: 0, unexplained: 0, predictedTokens: 0, reportedTokens: 0 };
  const { last, before } = history;
  for (const bucket of last === undefined ? before : [last, ...before]) {
    if (bucket.at <= from) break;
    sum.requests += bucket.requests;
    sum.exact += bucket.exact;
    sum.inFlight += bucket.inFlight;
    sum.unexplained += bucket.unexplained;
    sum.predictedTokens += bucket.predicted;
    sum.reportedTokens += bucket.reported;
  }
  return sum;
}
