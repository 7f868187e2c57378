import type { KvTruthWindow } from "../core/kv-status.ts";

/** Sums over one stretch of time. */
interface Bucket {
  /** Number of the stretch since time 0. */
  readonly at: number;
  readonly requests: number;
  readonly exact: number;
  readonly predicted: number;
  readonly reported: number;
}

/** Predicted against reported tokens over the last hour, in stretches of 10 s; a plain value, newest first. */
export type TruthHistory = readonly Bucket[];

const BUCKET_MS = 10_000;
/** What is shown: a minute, ten minutes, an hour. */
export const TRUTH_WINDOWS_S = [60, 600, 3_600] as const;
const KEPT = TRUTH_WINDOWS_S[2] / (BUCKET_MS / 1000);

/** Count one request. `now` in milliseconds, not before the one of the call before. */
export function countTruth(history: TruthHistory, predicted: number, reported: number, now: number): TruthHistory {
  const at = Math.floor(now / BUCKET_MS);
  const last = history[0]?.at === at ? history[0] : undefined;
  const grown: Bucket = {
    at,
    requests: (last?.requests ?? 0) + 1,
    exact: (last?.exact ?? 0) + (predicted === reported ? 1 : 0),
    predicted: (last?.predicted ?? 0) + predicted,
    reported: (last?.reported ?? 0) + reported,
  };
  if (last !== undefined) return [grown, ...history.slice(1)];
  return [grown, ...history].filter((bucket) => bucket.at > at - KEPT);
}

/** The sums over the last `seconds`, the stretch under way included. */
export function truthOver(history: TruthHistory, seconds: number, now: number): KvTruthWindow {
  const from = Math.floor(now / BUCKET_MS) - (seconds * 1000) / BUCKET_MS;
  const sum = { seconds, requests: 0, exact: 0, predictedTokens: 0, reportedTokens: 0 };
  for (const bucket of history) {
    if (bucket.at <= from) break;
    sum.requests += bucket.requests;
    sum.exact += bucket.exact;
    sum.predictedTokens += bucket.predicted;
    sum.reportedTokens += bucket.reported;
  }
  return sum;
}
