import type { Clock } from "../core/clock.ts";
import { type Bucket, type BucketAsk, type TakeResult, takeAll } from "./token-bucket.ts";

/** State of a store, for status. */
export interface LimitStoreStatus {
  readonly store: "memory" | "redis";
  /** `lost`: what happens then is said by `onLoss`. */
  readonly state: "ready" | "lost";
  readonly onLoss?: "local" | "open" | "closed";
  readonly reason?: string;
  /** Buckets kept in this process. */
  readonly buckets: number;
}

/** Where buckets are kept: in this process, or shared by routers. */
export interface LimitStore {
  /**
   * Take from all buckets or from none.
   * @throws CgnError DEPENDENCY_UNREACHABLE when the store is lost and requests must not pass then
   */
  take(asks: readonly BucketAsk[]): TakeResult | Promise<TakeResult>;
  /** Take whatever is there, also below 0; a negative cost gives back. Never fails. */
  charge(asks: readonly BucketAsk[]): void;
  status(): LimitStoreStatus;
  close(): void;
}

/** Buckets beyond this number push out those that were longest unused, which are full again by then. */
const MAX_BUCKETS = 100_000;

/** Buckets in the memory of this process. */
export class MemoryLimitStore implements LimitStore {
  readonly #clock: Clock;
  readonly #max: number;
  /** In the order of their last use. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock, max = MAX_BUCKETS) {
    this.#clock = clock;
    this.#max = max;
  }

  take(asks: readonly BucketAsk[]): TakeResult {
    return this.#take(asks, false);
  }

  charge(asks: readonly BucketAsk[]): void {
    this.#take(asks, true);
  }

  status(): LimitStoreStatus {
    return { store: "memory", state: "ready", buckets: this.#buckets.size };
  }

  close(): void {}

  #take(asks: readonly BucketAsk[], force: boolean): TakeResult {
    const put = (key: string, bucket: Bucket): void => {
      this.#buckets.delete(key);
      this.#buckets.set(key, bucket);
    };
    const result = takeAll(asks, (key) => this.#buckets.get(key), put, this.#clock.now(), force);
    if (this.#buckets.size > this.#max) this.#forgetOldest();
    return result;
  }

  /** A tenth at once: a map that lost its first entries is slow to walk from its start. */
  #forgetOldest(): void {
    const keep = Math.floor(this.#max * 0.9);
    for (const key of this.#buckets.keys()) {
      if (this.#buckets.size <= keep) break;
      this.#buckets.delete(key);
    }
  }
}
