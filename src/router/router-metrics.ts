import type { Subject } from "../access/subject.ts";
import { type CgnError, CODES, type Code } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Breaker } from "../routing/breaker.ts";
import type { CounterCell, GaugeCell, HistogramCell } from "../telemetry/cells.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { AnswerFacts } from "./answer.ts";
import type { Writable } from "./decisions.ts";
import { SubjectMetrics } from "./subject-metrics.ts";
import type { TrafficHistory } from "./traffic-history.ts";

export type Outcome = "ok" | "client_error" | "upstream_error" | "rejected" | "cancelled";

/** Cached tokens over the requests whose engine reported a figure. */
export interface CacheSums {
  readonly requests: number;
  readonly promptTokens: number;
  readonly predictedTokens: number;
  readonly reportedTokens: number;
  /** Sum of the absolute differences. */
  readonly errorTokens: number;
}

const NO_SUMS: CacheSums = {
  requests: 0,
  promptTokens: 0,
  predictedTokens: 0,
  reportedTokens: 0,
  errorTokens: 0,
};

/** Weight of the past in the hit ratio at each request: about the last 200 count. */
const RATIO_FORGET = 0.995;

interface ModelCells {
  readonly seconds: HistogramCell;
  readonly ttft: HistogramCell;
  readonly inFlight: GaugeCell;
  readonly prompt: CounterCell;
  readonly completion: CounterCell;
  readonly cached: CounterCell;
  readonly predicted: CounterCell;
  readonly error: HistogramCell;
  readonly hitRatio: GaugeCell;
}

function modelCells(metrics: Metrics, model: string): ModelCells {
  return {
    seconds: metrics.histogram("cgn_router_request_seconds", model),
    ttft: metrics.histogram("cgn_router_ttft_seconds", model),
    inFlight: metrics.gauge("cgn_router_admission_inflight", model, "both"),
    prompt: metrics.counter("cgn_router_prompt_tokens_total", model),
    completion: metrics.counter("cgn_router_completion_tokens_total", model),
    cached: metrics.counter("cgn_router_cached_tokens_total", model),
    predicted: metrics.counter("cgn_router_predicted_cached_tokens_total", model),
    error: metrics.histogram("cgn_router_cached_tokens_error", model),
    hitRatio: metrics.gauge("cgn_router_cache_hit_ratio", model),
  };
}

/** The router's metrics, by what happens. Cells are kept by model and worker, so that a request costs no label look-ups. */
export class RouterMetrics {
  readonly #metrics: Metrics;
  /** The same, by who asked. */
  readonly subjects: SubjectMetrics;
  readonly #cells = new Map<string, ModelCells>();
  readonly #caches = new Map<WorkerId, Writable<CacheSums>>();
  /** By worker and outcome. */
  readonly #legs = new Map<WorkerId, Map<string, CounterCell>>();
  readonly #ratios = new Map<string, { prompt: number; cached: number }>();
  readonly #decision: { observe(seconds: number): void };
  readonly #history: TrafficHistory | undefined;

  /** @param history what charts of the last day are drawn from */
  constructor(metrics: Metrics, history?: TrafficHistory) {
    this.#history = history;
    this.#metrics = metrics;
    this.subjects = new SubjectMetrics(metrics);
    this.#decision = metrics.histogram("cgn_router_routing_decision_seconds");
  }

  /** A request that was answered, or refused before it got to a worker. */
  ended(
    model: string,
    outcome: Outcome,
    subject: Subject,
    times?: { readonly totalMs: number; readonly firstMs: number },
  ): void {
    const cells = this.#of(model);
    this.subjects.ended(model, outcome, subject);
    this.#history?.ended(outcome, outcome === "ok" ? times?.firstMs : undefined);
    if (outcome === "cancelled") this.#metrics.counter("cgn_router_client_left_total", model).inc();
    if (times === undefined) return;
    cells.seconds.observe(times.totalMs / 1000);
    if (outcome === "ok") cells.ttft.observe(times.firstMs / 1000);
  }

  /** A request that the router itself answered with an error. */
  refused(model: string, error: CgnError, subject: Subject): void {
    const { blame, http } = CODES[error.code as Code];
    if (blame === "caller-left") {
      this.ended(model, "cancelled", subject);
      return;
    }
    if (error.code === "OVERLOADED" && "reason" in error.details) this.rejected(model, String(error.details.reason));
    if (error.code === "RATE_LIMITED") this.rejected(model, "rate limit");
    if (error.code === "NO_WORKER") this.rejected(model, "no ready worker");
    this.ended(
      model,
      http === 429 || http === 503 ? "rejected" : http < 500 ? "client_error" : "upstream_error",
      subject,
    );
  }

  /** Mean time between the tokens of one streamed answer. */
  paced(itlMs: number): void {
    this.#history?.paced(itlMs);
  }

  /** One step of a cascade. @param mean log probability of the tokens that were judged */
  cascaded(chain: string, model: string, result: string, mean?: number): void {
    this.#metrics.counter("cgn_router_cascade_steps_total", chain, model, result).inc();
    if (mean !== undefined) this.#metrics.histogram("cgn_router_cascade_doubt", chain, model).observe(-mean);
  }

  decided(ms: number): void {
    this.#decision.observe(ms / 1000);
  }

  rejected(model: string, reason: string): void {
    this.#metrics.counter("cgn_router_admission_rejected_total", model, reason).inc();
  }

  admitted(model: string, by: 1 | -1): void {
    this.#of(model).inFlight.inc(by);
  }

  /** A stream whose engine died was taken to another one. */
  continued(model: string, result: "ok" | "failed" | "left"): void {
    this.#metrics.counter("cgn_router_continued_total", model, result).inc();
  }

  retried(model: string, reason: string): void {
    this.#metrics.counter("cgn_router_retries_total", model, reason).inc();
  }

  breakerMoved(worker: WorkerId, { at }: Breaker): void {
    this.#metrics.gauge("cgn_router_breaker_state", worker).set(at === "closed" ? 0 : at === "half-open" ? 1 : 2);
    if (at === "open") this.#metrics.counter("cgn_router_breaker_opened_total", worker).inc();
  }

  legEnded(worker: WorkerId, outcome: Outcome | "retried" | "escalated"): void {
    let cells = this.#legs.get(worker);
    if (cells === undefined) this.#legs.set(worker, (cells = new Map()));
    let cell = cells.get(outcome);
    if (cell === undefined)
      cells.set(outcome, (cell = this.#metrics.counter("cgn_router_worker_requests_total", worker, outcome)));
    cell.inc();
  }

  /** @param predicted undefined: the engine's figure does not say whether the prediction was right */
  tokens(model: string, worker: WorkerId, facts: AnswerFacts, predicted: number | undefined): void {
    const { promptTokens, completionTokens, cachedTokens } = facts;
    const cells = this.#of(model);
    this.#history?.tokens(promptTokens, completionTokens, cachedTokens, predicted);
    if (promptTokens !== undefined) cells.prompt.inc(promptTokens);
    if (completionTokens !== undefined) cells.completion.inc(completionTokens);
    if (cachedTokens === undefined) return;
    cells.cached.inc(cachedTokens);
    if (promptTokens !== undefined) this.#hitRatio(model, promptTokens, cachedTokens);
    if (predicted === undefined) return;
    this.predicted(model, worker, predicted, cachedTokens, promptTokens ?? 0);
  }

  /** What an engine had cached, against what was predicted; of a split request it is the prefill's. */
  predicted(model: string, worker: WorkerId, predicted: number, cached: number, promptTokens: number): void {
    const cells = this.#of(model);
    let sums = this.#caches.get(worker);
    if (sums === undefined) this.#caches.set(worker, (sums = { ...NO_SUMS }));
    sums.requests++;
    sums.promptTokens += promptTokens;
    sums.predictedTokens += predicted;
    sums.reportedTokens += cached;
    sums.errorTokens += Math.abs(predicted - cached);
    cells.predicted.inc(predicted);
    cells.error.observe(Math.abs(predicted - cached));
  }

  /** A split request was tried. */
  split(model: string, outcome: "ok" | "failed"): void {
    this.#metrics.counter("cgn_router_split_total", model, outcome).inc();
  }

  /** KV that nobody wanted was fetched from its prefill engine, so that it lets go of it; or could not be. */
  released(freed: boolean): void {
    this.#metrics.counter("cgn_router_kv_released_total", freed ? "freed" : "left").inc();
  }

  /** What was predicted for a worker and what it reported, since the router started. */
  cacheOf(worker: WorkerId): CacheSums {
    return { ...(this.#caches.get(worker) ?? NO_SUMS) };
  }

  /** Gauges that are read off the state when somebody looks. */
  onScrape(
    read: () => {
      workers: readonly WorkerInfo[];
      inFlight(id: WorkerId): number;
      takesRequests(worker: WorkerInfo): boolean;
      /** Requests that wait for a model to be loaded. */
      waiting(model: string): number;
      connections: number;
    },
  ): () => void {
    return this.#metrics.onScrape(() => {
      const { workers, inFlight, takesRequests, waiting, connections } = read();
      this.#metrics.gauge("cgn_router_connections").set(connections);
      for (const worker of workers) {
        this.#metrics.gauge("cgn_router_worker_inflight", worker.id).set(inFlight(worker.id));
        for (const model of worker.models) {
          if (worker.onDemand === true) this.#metrics.gauge("cgn_router_load_waiting", model).set(waiting(model));
          this.#metrics.gauge("cgn_router_worker_ready", worker.id, model).set(takesRequests(worker) ? 1 : 0);
        }
      }
    });
  }

  forget(worker: WorkerId): void {
    this.#caches.delete(worker);
    this.#legs.delete(worker);
    this.#metrics.forget("worker", worker, "cgn_router_");
  }

  #of(model: string): ModelCells {
    let cells = this.#cells.get(model);
    if (cells === undefined) this.#cells.set(model, (cells = modelCells(this.#metrics, model)));
    return cells;
  }

  #hitRatio(model: string, prompt: number, cached: number): void {
    let sums = this.#ratios.get(model);
    if (sums === undefined) this.#ratios.set(model, (sums = { prompt: 0, cached: 0 }));
    sums.prompt = sums.prompt * RATIO_FORGET + prompt;
    sums.cached = sums.cached * RATIO_FORGET + cached;
    if (sums.prompt > 0) this.#of(model).hitRatio.set(sums.cached / sums.prompt);
  }
}
