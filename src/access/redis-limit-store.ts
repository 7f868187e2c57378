import type { Redis } from "ioredis";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type LimitStore, type LimitStoreStatus, MemoryLimitStore } from "./limit-store.ts";
import type { BucketAsk, TakeResult } from "./token-bucket.ts";

/** What happens to requests while Redis is not there: each router counts alone, all pass, or none. */
export type OnRedisLoss = "local" | "open" | "closed";

export interface RedisLimitOptions {
  readonly url: string;
  readonly onLoss: OnRedisLoss;
  /** Routers that share it share limits. */
  readonly cluster: string;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * `takeAll()` of token-bucket.ts inside Redis: one step for all routers, on Redis's own clock. KEYS are buckets; ARGV is "1"
 * for a charge, then capacity, tokens a millisecond, cost and need of each. Gives taken, then remaining and wait of each.
 */
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local force = ARGV[1] == '1'
local ok = true
local have, wait = {}, {}
for i, key in ipairs(KEYS) do
  local capacity, rate, need = tonumber(ARGV[i * 4 - 2]), tonumber(ARGV[i * 4 - 1]), tonumber(ARGV[i * 4 + 1])
  local b = redis.call('HMGET', key, 'n', 'at')
  local n = capacity
  if b[1] then n = math.min(capacity, tonumber(b[1]) + math.max(0, now - tonumber(b[2])) * rate) end
  have[i] = n
  local missing = math.min(need, capacity) - n
  wait[i] = missing <= 0 and 0 or math.ceil(missing / rate)
  if wait[i] > 0 then ok = false end
end
local out = { (ok or force) and '1' or '0' }
for i, key in ipairs(KEYS) do
  local capacity, rate, cost = tonumber(ARGV[i * 4 - 2]), tonumber(ARGV[i * 4 - 1]), tonumber(ARGV[i * 4])
  if ok or force then
    have[i] = math.min(capacity, have[i] - cost)
    redis.call('HSET', key, 'n', string.format('%.17g', have[i]), 'at', string.format('%.17g', now))
    redis.call('PEXPIRE', key, math.ceil((capacity - have[i]) / rate) + 1000)
  end
  out[#out + 1] = string.format('%.17g', have[i])
  out[#out + 1] = tostring(wait[i])
end
return out`;

/** A Redis that answers later is as good as none: a request must not wait for its permission. */
const ANSWER_MS = 250;
/** After a failure Redis is left alone for so long. */
const REST_MS = 1_000;

type Taking = Redis & { cgnTake(keyCount: number, ...rest: string[]): Promise<string[]> };

/** Buckets in Redis, shared by all routers with one `redis_url`. The library is loaded here, and only then. */
export class RedisLimitStore implements LimitStore {
  readonly #redis: Taking;
  readonly #options: RedisLimitOptions;
  readonly #local: MemoryLimitStore;
  #reason: string | undefined = "not connected yet";
  #restUntilMs = 0;
  #closed = false;

  static async open(options: RedisLimitOptions): Promise<RedisLimitStore> {
    const { Redis: Client } = await import("ioredis");
    const redis = new Client(options.url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      connectTimeout: 2_000,
      commandTimeout: ANSWER_MS,
      retryStrategy: (tries) => Math.min(2_000, 100 * tries),
    });
    redis.defineCommand("cgnTake", { lua: TAKE });
    const store = new RedisLimitStore(redis as Taking, options);
    await store.#connect();
    return store;
  }

  private constructor(redis: Taking, options: RedisLimitOptions) {
    this.#redis = redis;
    this.#options = options;
    this.#local = new MemoryLimitStore(options.clock);
    redis.on("error", (e: Error) => this.#lost(e.message));
    redis.on("close", () => this.#lost("the connection is closed"));
    redis.on("ready", () => this.#found());
  }

  take(asks: readonly BucketAsk[]): TakeResult | Promise<TakeResult> {
    if (this.#reason !== undefined || this.#options.clock.now() < this.#restUntilMs) return this.#without(asks);
    return this.#ask(asks, false).catch((e: unknown) => {
      this.#failed(e);
      return this.#without(asks);
    });
  }

  charge(asks: readonly BucketAsk[]): void {
    if (this.#reason !== undefined || this.#options.clock.now() < this.#restUntilMs) {
      this.#local.charge(asks);
      return;
    }
    this.#ask(asks, true).catch((e: unknown) => this.#failed(e));
  }

  status(): LimitStoreStatus {
    const resting = this.#options.clock.now() < this.#restUntilMs;
    const reason = this.#reason ?? (resting ? "it did not answer in time" : undefined);
    return {
      store: "redis",
      state: reason === undefined ? "ready" : "lost",
      onLoss: this.#options.onLoss,
      ...(reason === undefined ? {} : { reason }),
      buckets: this.#local.status().buckets,
    };
  }

  close(): void {
    this.#closed = true;
    this.#redis.disconnect();
  }

  /** A Redis that is not there at the start is waited for in the background. */
  async #connect(): Promise<void> {
    await this.#redis.connect().catch((e: Error) => this.#lost(e.message));
  }

  async #ask(asks: readonly BucketAsk[], force: boolean): Promise<TakeResult> {
    const keys = asks.map(({ key }) => `cgn:{${this.#options.cluster}}:limit:${key}`);
    const figures = asks.flatMap((a) => [a.capacity, a.perSecond / 1000, a.cost, a.needs].map(String));
    const [taken, ...rest] = await this.#redis.cgnTake(keys.length, ...keys, force ? "1" : "0", ...figures);
    const levels = asks.map((_, i) => ({ remaining: Number(rest[i * 2]), waitMs: Number(rest[i * 2 + 1]) }));
    return { taken: taken === "1", levels };
  }

  #without(asks: readonly BucketAsk[]): TakeResult {
    const { onLoss } = this.#options;
    if (onLoss === "local") return this.#local.take(asks);
    if (onLoss === "open")
      return { taken: true, levels: asks.map(({ capacity }) => ({ remaining: capacity, waitMs: 0 })) };
    const should = 'Try again later; router.rate_limit.on_redis_loss = "local" goes on without it';
    const message = `Cannot check the rate limit: Redis does not answer. ${should}`;
    throw new CgnError("DEPENDENCY_UNREACHABLE", message, { retryAfterS: 1 });
  }

  #failed(e: unknown): void {
    this.#restUntilMs = this.#options.clock.now() + REST_MS;
    this.#options.log.once("redis/slow").warn("Redis fails to answer for rate limits", {
      said: e instanceof Error ? e.message : String(e),
      on_redis_loss: this.#options.onLoss,
    });
  }

  #lost(reason: string): void {
    if (this.#closed) return;
    // An error tells more than the closing that follows it.
    if (this.#reason === undefined || reason !== "the connection is closed") {
      if (this.#reason === undefined || this.#reason === "not connected yet") {
        this.#options.log.warn("Redis is lost to the rate limits", { reason, on_redis_loss: this.#options.onLoss });
      }
      this.#reason = reason;
    }
  }

  #found(): void {
    this.#options.log.info("Rate limits are shared through Redis");
    this.#reason = undefined;
    this.#restUntilMs = 0;
  }
}
