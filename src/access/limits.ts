import { CgnError } from "../core/errors.ts";
import type { LimitStore, LimitStoreStatus } from "./limit-store.ts";
import type { Subject } from "./subject.ts";
import { FREE_TICKET, type Ticket } from "./ticket.ts";
import type { BucketAsk, BucketLevel, TakeResult } from "./token-bucket.ts";

/** `[router.rate_limit]`. A subject's own limits, which stand with its key, bind also where it is not enabled. */
export interface RateLimitSettings {
  readonly enabled: boolean;
  /** False: only the limits of each subject bind, `rps` does not. */
  readonly limitsAll?: boolean;
  /** Requests a second, all subjects together. */
  readonly rps: number;
  /** Requests that may come at once, of `rps`. A subject's burst is as many seconds' worth of its own rate. */
  readonly burst: number;
  readonly rpsPerSubject?: number;
  readonly rpmPerSubject?: number;
  readonly tpmPerSubject?: number;
  readonly concurrentPerSubject?: number;
}

/** A bucket and what it limits. */
interface Limit {
  readonly ask: BucketAsk;
  readonly unit: "requests" | "tokens";
  readonly said: string;
}

/** Limits of one subject, made once and kept while it is known. */
interface SubjectPlan {
  readonly limits: readonly Limit[];
  readonly asks: readonly BucketAsk[];
  /** Of tokens only. */
  readonly tokens: BucketAsk | undefined;
  readonly concurrent: number | undefined;
}

/** Plans are remade for free; so many are kept. */
const MAX_PLANS = 10_000;

/** Lets requests in by rate and by number in flight. */
export class Limits {
  readonly #settings: RateLimitSettings;
  readonly #store: LimitStore;
  readonly #global: Limit | undefined;
  /** By the subject's object, so that a key whose limits change gets a new plan. */
  #plans = new WeakMap<Subject, SubjectPlan>();
  #planned = 0;
  readonly #running = new Map<string, number>();

  constructor(settings: RateLimitSettings, store: LimitStore) {
    this.#settings = settings;
    this.#store = store;
    const { enabled, limitsAll, rps, burst } = settings;
    this.#global =
      enabled && limitsAll !== false
        ? {
            ask: { key: "all", capacity: burst, perSecond: rps, cost: 1, needs: 1 },
            unit: "requests",
            said: `${rps} requests a second for all clients (router.rate_limit.rps)`,
          }
        : undefined;
  }

  /**
   * Let a request in, or not. A promise only where limits are shared through Redis.
   * @throws CgnError RATE_LIMITED with `details.headers`; DEPENDENCY_UNREACHABLE
   */
  admit(subject: Subject): Ticket | Promise<Ticket> {
    const plan = this.#planOf(subject);
    if (plan.limits.length === 0 && plan.concurrent === undefined) return FREE_TICKET;
    const leave = this.#enter(subject, plan.concurrent);
    if (plan.limits.length === 0) return this.#ticket(plan, {}, leave);
    try {
      const result = this.#store.take(plan.asks);
      if (!(result instanceof Promise)) return this.#decide(plan, result, leave);
      return result
        .then((taken) => this.#decide(plan, taken, leave))
        .catch((e: unknown) => {
          leave();
          throw e;
        });
    } catch (e) {
      leave();
      throw e;
    }
  }

  status(): LimitStoreStatus & { readonly enabled: boolean; readonly running: number } {
    let running = 0;
    for (const count of this.#running.values()) running += count;
    return { enabled: this.#settings.enabled, running, ...this.#store.status() };
  }

  close(): void {
    this.#store.close();
  }

  #decide(plan: SubjectPlan, { taken, levels }: TakeResult, leave: () => void): Ticket {
    const headers = limitHeaders(plan.limits, levels);
    if (taken) return this.#ticket(plan, headers, leave);
    const worst = levels.reduce((most, level, i) => (level.waitMs > levels[most]!.waitMs ? i : most), 0);
    throw limited(plan.limits[worst]!.said, levels[worst]!.waitMs, headers);
  }

  #ticket({ tokens }: SubjectPlan, headers: Readonly<Record<string, string>>, leave: () => void): Ticket {
    let aside = 0;
    let over = false;
    const pay = (amount: number): void => {
      if (tokens !== undefined && amount !== 0) this.#store.charge([{ ...tokens, cost: amount }]);
    };
    return {
      headers,
      countsTokens: tokens !== undefined,
      reserve(promptTokens) {
        if (over || tokens === undefined) return;
        const more = Math.max(0, Math.round(promptTokens)) - aside;
        aside += more;
        pay(more);
      },
      end(used) {
        if (over) return;
        over = true;
        leave();
        if (used !== undefined) pay(used - aside);
      },
    };
  }

  #enter(subject: Subject, concurrent: number | undefined): () => void {
    if (concurrent === undefined) return () => {};
    const id = subject.keyId ?? subject.name;
    const running = this.#running.get(id) ?? 0;
    if (running >= concurrent) throw limited(`${concurrent} requests at a time for this key`, 1_000, {});
    this.#running.set(id, running + 1);
    let over = false;
    return () => {
      if (over) return;
      over = true;
      const now = (this.#running.get(id) ?? 1) - 1;
      if (now > 0) this.#running.set(id, now);
      else this.#running.delete(id);
    };
  }

  #planOf(subject: Subject): SubjectPlan {
    let plan = this.#plans.get(subject);
    if (plan !== undefined) return plan;
    if (++this.#planned > MAX_PLANS) {
      this.#plans = new WeakMap();
      this.#planned = 0;
    }
    plan = this.#makePlan(subject);
    this.#plans.set(subject, plan);
    return plan;
  }

  #makePlan(subject: Subject): SubjectPlan {
    const s = this.#settings;
    const general = s.enabled
      ? { rps: s.rpsPerSubject, rpm: s.rpmPerSubject, tpm: s.tpmPerSubject, concurrent: s.concurrentPerSubject }
      : {};
    const { rps, rpm, tpm } = { ...general, ...subject.limits };
    const concurrent = subject.limits.concurrent ?? general.concurrent;
    const id = subject.keyId ?? subject.name;
    const limits: Limit[] = this.#global === undefined ? [] : [this.#global];
    const add = (key: string, unit: Limit["unit"], capacity: number, perSecond: number, said: string): void => {
      const cost = unit === "requests" ? 1 : 0;
      limits.push({ ask: { key: `${key}:${id}`, capacity, perSecond, cost, needs: 1 }, unit, said });
    };
    if (rps !== undefined)
      add("rps", "requests", Math.max(1, (rps * s.burst) / s.rps), rps, `${rps} requests a second for this key`);
    if (rpm !== undefined) add("rpm", "requests", rpm, rpm / 60, `${rpm} requests a minute for this key`);
    if (tpm !== undefined) add("tpm", "tokens", tpm, tpm / 60, `${tpm} tokens a minute for this key`);
    const tokens = limits.find(({ unit }) => unit === "tokens")?.ask;
    return { limits, asks: limits.map(({ ask }) => ask), tokens, concurrent };
  }
}

function limited(said: string, waitMs: number, headers: Readonly<Record<string, string>>): CgnError {
  const retryAfterS = Math.max(1, Math.ceil(waitMs / 1000));
  const message = `Cannot take the request: the limit is ${said}. Try again in ${retryAfterS} s`;
  return new CgnError("RATE_LIMITED", message, { retryAfterS, headers } as { retryAfterS: number }) as CgnError;
}

/** OpenAI's headers, of the bucket that is nearest to its end for each unit. */
function limitHeaders(limits: readonly Limit[], levels: readonly BucketLevel[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const unit of ["requests", "tokens"] as const) {
    let tightest = -1;
    const share = (i: number): number => levels[i]!.remaining / limits[i]!.ask.capacity;
    for (const [i, limit] of limits.entries()) {
      if (limit.unit === unit && (tightest < 0 || share(i) < share(tightest))) tightest = i;
    }
    if (tightest < 0) continue;
    const { capacity, perSecond } = limits[tightest]!.ask;
    const { remaining } = levels[tightest]!;
    headers[`x-ratelimit-limit-${unit}`] = String(Math.floor(capacity));
    headers[`x-ratelimit-remaining-${unit}`] = String(Math.max(0, Math.floor(remaining)));
    headers[`x-ratelimit-reset-${unit}`] = resetText(((capacity - remaining) / perSecond) * 1000);
  }
  return headers;
}

/** As OpenAI writes it: `12ms`, `1.5s`, `6m0s`. */
function resetText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.ceil(ms))}ms`;
  if (ms < 60_000) return `${Math.ceil(ms / 100) / 10}s`;
  const seconds = Math.ceil(ms / 1_000);
  return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
