import type { KvSourceStatus } from "../core/kv-status.ts";
import { parseExposition, type Sample } from "../telemetry/exposition.ts";

/** What `/v1/cgn/status` has of an engine's source of knowledge that is of interest here. */
export type SourceAlarms = Pick<KvSourceStatus, "worker" | "alarms">;

/** One look at a router: its status and its metrics. */
export interface RouterLook {
  readonly atMs: number;
  readonly status: RouterStatus;
  readonly samples: readonly Sample[];
}

/** The part of `/v1/cgn/status` that is shown. */
export interface RouterStatus {
  readonly node: string;
  readonly draining: boolean;
  readonly policy: string;
  readonly access?: {
    readonly auth: boolean;
    readonly keys?: number;
    readonly keysFile?: { readonly problem?: string };
    readonly oidc?: { readonly issuer: string; readonly problem?: string };
    readonly rateLimit?: { readonly store: string; readonly state: string; readonly onLoss?: string };
  };
  readonly tracing?: { readonly endpoint: string; readonly problem?: string };
  readonly cluster?: {
    readonly source: string;
    readonly ok: boolean;
    readonly reason?: string;
    readonly members: readonly { readonly kind: string }[];
    readonly marks: Readonly<Record<string, string>>;
    /** Settings that all routers share; they win over files. */
    readonly shared?: Readonly<Record<string, string>>;
    /** Those of them that this router does not understand: its file counts. */
    readonly sharedProblems?: readonly { readonly key: string; readonly problem: string }[];
  };
  /** Routers of other clusters. */
  readonly federation?: readonly { readonly name: string; readonly up: boolean; readonly reason: string }[];
  /** How each engine's cache is known: of the kvcached that is embedded, or of those elsewhere, with the copies of them. */
  readonly sources?:
    | readonly SourceAlarms[]
    | {
        readonly mirrors?: readonly { readonly kvcached: string; readonly state: string; readonly reason?: string }[];
        readonly sources?: readonly SourceAlarms[];
      };
  readonly models: readonly {
    readonly model: string;
    readonly workers: number;
    readonly ready: number;
    readonly running: number;
    readonly queued: number;
    readonly waitingForLoad: number;
    readonly problem?: string;
  }[];
  readonly workers: readonly {
    readonly id: string;
    readonly node: string;
    readonly kind: string;
    readonly url: string;
    readonly models: readonly string[];
    readonly role?: string;
    readonly state: string;
    readonly reason: string;
    readonly takesRequests: boolean;
    readonly whyNot?: string;
    /** Why a prefill or decode engine has nobody to work with. */
    readonly unpaired?: string;
    /** In what it differs from one that it works with, where that may go wrong. */
    readonly pairCaution?: string;
    readonly load: { readonly inFlight: number; readonly queuedTokens: number; readonly streams: number };
    readonly cache: { readonly requests: number; readonly predictedTokens: number; readonly reportedTokens: number };
  }[];
}

/** What is shown of one model, or of all together. Rates are over the time between two looks, or since the start. */
export interface TrafficFigures {
  readonly requestsPerS?: number;
  readonly requests: number;
  readonly failed: number;
  readonly generatedPerS?: number;
  readonly ttftMs?: { readonly p50: number; readonly p90: number };
  /** Shares of prompt tokens, 0 to 1, over requests whose engine reported a figure. */
  readonly hitPredicted?: number;
  readonly hitReal?: number;
}

export interface WorkerFigures {
  readonly id: string;
  readonly requests: number;
  readonly requestsPerS?: number;
}

export interface RouterFigures {
  readonly all: TrafficFigures;
  readonly models: ReadonlyMap<string, TrafficFigures>;
  readonly workers: ReadonlyMap<string, WorkerFigures>;
  readonly connections: number;
}

/** Make a look of what the admin port answered. */
export function lookOf(atMs: number, status: string, metrics: string): RouterLook {
  return { atMs, status: JSON.parse(status) as RouterStatus, samples: parseExposition(metrics) };
}

/** Sums of samples by one label. A router that was started anew counts from 0: then what it has is what came. */
class Growth {
  readonly #before: Map<string, number>;
  readonly #samples: readonly Sample[];

  constructor(before: RouterLook | undefined, now: RouterLook) {
    this.#samples = now.samples;
    this.#before = new Map((before?.samples ?? []).map((sample) => [keyOf(sample), sample.value]));
  }

  of(name: string, where: Readonly<Record<string, string>>): number {
    let sum = 0;
    for (const sample of this.matching(name, where)) sum += this.by(sample);
    return sum;
  }

  by(sample: Sample): number {
    const before = this.#before.get(keyOf(sample)) ?? 0;
    return sample.value >= before ? sample.value - before : sample.value;
  }

  *matching(name: string, where: Readonly<Record<string, string>>): Iterable<Sample> {
    for (const sample of this.#samples) {
      if (sample.name !== name) continue;
      if (Object.entries(where).every(([label, value]) => sample.labels[label] === value)) yield sample;
    }
  }
}

const keyOf = ({ name, labels }: Sample): string => `${name}${JSON.stringify(labels)}`;

/** What happened between two looks; without the first one, since the router started. */
export function figuresBetween(before: RouterLook | undefined, now: RouterLook): RouterFigures {
  const growth = new Growth(before, now);
  const seconds = before === undefined ? undefined : (now.atMs - before.atMs) / 1000;
  const rate = (count: number): number | undefined =>
    seconds === undefined || seconds <= 0 ? undefined : count / seconds;
  const connections = now.samples.find(({ name }) => name === "cgn_router_connections")?.value ?? 0;
  return {
    all: traffic(growth, {}, rate),
    models: new Map(now.status.models.map(({ model }) => [model, traffic(growth, { model }, rate)])),
    workers: new Map(
      now.status.workers.map(({ id }) => {
        const requests = growth.of("cgn_router_worker_requests_total", { worker: id });
        const perS = rate(requests);
        return [id, { id, requests, ...(perS === undefined ? {} : { requestsPerS: perS }) }];
      }),
    ),
    connections,
  };
}

function traffic(
  growth: Growth,
  where: Readonly<Record<string, string>>,
  rate: (count: number) => number | undefined,
): TrafficFigures {
  const requests = growth.of("cgn_router_requests_total", where);
  const ok = growth.of("cgn_router_requests_total", { ...where, outcome: "ok" });
  const prompt = growth.of("cgn_router_prompt_tokens_total", where);
  const ttft = percentiles(growth, where);
  const share = (name: string): object | undefined =>
    prompt > 0 ? { share: growth.of(name, where) / prompt } : undefined;
  const predicted = share("cgn_router_predicted_cached_tokens_total") as { share: number } | undefined;
  const real = share("cgn_router_cached_tokens_total") as { share: number } | undefined;
  const requestsPerS = rate(requests);
  const generatedPerS = rate(growth.of("cgn_router_completion_tokens_total", where));
  return {
    requests,
    failed: requests - ok,
    ...(requestsPerS === undefined ? {} : { requestsPerS }),
    ...(generatedPerS === undefined ? {} : { generatedPerS }),
    ...(ttft === undefined ? {} : { ttftMs: ttft }),
    ...(predicted === undefined ? {} : { hitPredicted: predicted.share }),
    ...(real === undefined ? {} : { hitReal: real.share }),
  };
}

function percentiles(
  growth: Growth,
  where: Readonly<Record<string, string>>,
): { readonly p50: number; readonly p90: number } | undefined {
  const below = new Map<number, number>();
  for (const sample of growth.matching("cgn_router_ttft_seconds_bucket", where)) {
    const bound = sample.labels["le"] === "+Inf" ? Number.POSITIVE_INFINITY : Number(sample.labels["le"]);
    below.set(bound, (below.get(bound) ?? 0) + growth.by(sample));
  }
  const buckets = [...below].sort(([a], [b]) => a - b);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) return undefined;
  return { p50: quantile(buckets, total, 0.5), p90: quantile(buckets, total, 0.9) };
}

/** Milliseconds, straight within a bucket; a value above the last bound counts as that bound, as in Prometheus. */
function quantile(buckets: readonly (readonly [number, number])[], total: number, q: number): number {
  let [from, under] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= q * total) {
      if (bound === Number.POSITIVE_INFINITY) return from * 1000;
      return (from + ((bound - from) * (q * total - under)) / Math.max(1e-9, count - under)) * 1000;
    }
    [from, under] = [bound, count];
  }
  return from * 1000;
}
