/** A bucket as it was when somebody last looked. */
export interface Bucket {
  /** Below 0: what was used turned out to be more than what was there, and must flow back first. */
  readonly tokens: number;
  readonly atMs: number;
}

/** What is asked of one bucket. */
export interface BucketAsk {
  readonly key: string;
  readonly capacity: number;
  readonly perSecond: number;
  /** Taken when all asked buckets agree. */
  readonly cost: number;
  /** So much must be there. */
  readonly needs: number;
}

/** What a bucket has after the question. */
export interface BucketLevel {
  readonly remaining: number;
  /** Until it has what is needed; 0 when it does. */
  readonly waitMs: number;
}

export interface TakeResult {
  /** All had what is needed; else nothing was taken from any. */
  readonly taken: boolean;
  /** In the order of the questions. */
  readonly levels: readonly BucketLevel[];
}

/** What is in a bucket now. One that nobody knows is full; a clock that went back fills nothing. */
export function refilled(bucket: Bucket | undefined, ask: BucketAsk, nowMs: number): number {
  if (bucket === undefined) return ask.capacity;
  const passedMs = Math.max(0, nowMs - bucket.atMs);
  return Math.min(ask.capacity, bucket.tokens + (passedMs * ask.perSecond) / 1000);
}

/** Milliseconds until a bucket with so much in it has what is needed. */
export function waitFor(ask: BucketAsk, tokens: number): number {
  const missing = Math.min(ask.needs, ask.capacity) - tokens;
  return missing <= 0 ? 0 : Math.ceil((missing / ask.perSecond) * 1000);
}

/**
 * Take from all buckets or from none.
 * @param force take whatever is there, also below 0: what was used is used
 * @param put called with each bucket's new state; not at all where nothing changes
 */
export function takeAll(
  asks: readonly BucketAsk[],
  get: (key: string) => Bucket | undefined,
  put: (key: string, bucket: Bucket) => void,
  nowMs: number,
  force: boolean,
): TakeResult {
  const before = asks.map((ask) => refilled(get(ask.key), ask, nowMs));
  const waits = asks.map((ask, i) => waitFor(ask, before[i]!));
  const taken = force || waits.every((wait) => wait === 0);
  const levels = asks.map((ask, i) => {
    const remaining = taken ? Math.min(ask.capacity, before[i]! - ask.cost) : before[i]!;
    if (taken) put(ask.key, { tokens: remaining, atMs: nowMs });
    return { remaining, waitMs: waits[i]! };
  });
  return { taken, levels };
}
