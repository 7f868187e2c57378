/** One metric as Prometheus sees it. Names carry their unit; times are seconds, sizes bytes. */
export interface MetricRow {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds, ascending. Histograms only. */
  readonly buckets?: readonly number[];
}

const REQUEST_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const DECISION_S = [1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.025, 0.1, 1];
const START_S = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800];
const ERROR_TOKENS = [0, 1, 2, 4, 16, 32, 64, 128, 256, 1024, 4096, 16384];

/**
 * Every metric that cgn exports, and the only place that declares one: docs/metrics.md is printed from it.
 *
 * Eight of these names are older than this program and stand on people's dashboards (see "HTTP surface" in the
 * configuration reference); their labels must not change.
 */
export const METRICS = {
  cgn_router_requests_total: {
    type: "counter",
    labels: ["model", "subject", "outcome"],
    help: "Requests ended, by model, key subject and outcome (ok, client_error, upstream_error, rejected, cancelled)",
  },
  cgn_router_routing_decision_seconds: {
    type: "histogram",
    labels: [],
    help: "Time to choose a worker, prefix look-up included",
    buckets: DECISION_S,
  },
  cgn_router_admission_inflight: {
    type: "gauge",
    labels: ["model", "role"],
    help: "Requests that were admitted and have not ended",
  },
  cgn_router_admission_rejected_total: {
    type: "counter",
    labels: ["model", "reason"],
    help: "Requests that were not admitted",
  },
  cgn_router_cache_hit_ratio: {
    type: "gauge",
    labels: ["model"],
    help: "Share of prompt tokens that engines reported as cached, over the last requests (0 to 1)",
  },
  cgn_router_load_waiting: {
    type: "gauge",
    labels: ["model"],
    help: "Requests that wait for their model to be loaded",
  },
  cgn_router_request_seconds: {
    type: "histogram",
    labels: ["model"],
    help: "Whole time of a request, from its last body byte to the last byte of the answer",
    buckets: REQUEST_S,
  },
  cgn_router_ttft_seconds: {
    type: "histogram",
    labels: ["model"],
    help: "Time to the first byte of the answer's body",
    buckets: REQUEST_S,
  },
  cgn_router_prompt_tokens_total: { type: "counter", labels: ["model"], help: "Prompt tokens, as engines reported" },
  cgn_router_completion_tokens_total: { type: "counter", labels: ["model"], help: "Tokens generated, as reported" },
  cgn_router_subject_tokens_total: {
    type: "counter",
    labels: ["subject", "kind"],
    help: "Tokens by who asked, as engines reported, by kind: prompt, cached (of them), completion. Subjects beyond 200 are `other`",
  },
  cgn_router_limit_store_ready: {
    type: "gauge",
    labels: ["store"],
    help: "1 while rate limits are counted where they should be (memory, redis); 0: as on_redis_loss says",
  },
  cgn_router_trace_spans_total: {
    type: "counter",
    labels: ["result"],
    help: "Trace spans, by what became of them: sent, failed (the collector refused or was gone), dropped (too many waited)",
  },
  cgn_router_cached_tokens_total: { type: "counter", labels: ["model"], help: "Cached prompt tokens, as reported" },
  cgn_router_predicted_cached_tokens_total: {
    type: "counter",
    labels: ["model"],
    help: "Cached prompt tokens as predicted, over the requests whose engine reported a figure",
  },
  cgn_router_cached_tokens_error: {
    type: "histogram",
    labels: ["model"],
    help: "Absolute difference of predicted and reported cached tokens",
    buckets: ERROR_TOKENS,
  },
  cgn_router_split_total: {
    type: "counter",
    labels: ["model", "outcome"],
    help: "Tries of requests that were split into prefill and decode, by outcome (ok, failed)",
  },
  cgn_router_kv_released_total: {
    type: "counter",
    labels: ["outcome"],
    help: "Hand-overs that nobody wanted any more: the prefill engine was made to let go of the KV (freed), or not (left)",
  },
  cgn_router_worker_requests_total: {
    type: "counter",
    labels: ["worker", "outcome"],
    help: "Requests sent to a worker, retries included",
  },
  cgn_router_worker_inflight: { type: "gauge", labels: ["worker"], help: "Requests on a worker now" },
  cgn_router_worker_ready: { type: "gauge", labels: ["worker", "model"], help: "1 when the worker takes requests" },
  cgn_router_threads: {
    type: "gauge",
    labels: [],
    help: "Threads that have clients' connections, where there are several",
  },
  cgn_router_thread_deaths_total: {
    type: "counter",
    labels: [],
    help: "Threads with clients' connections that ended by a fault and were started anew",
  },
  cgn_router_thread_loop_delay_seconds: {
    type: "gauge",
    labels: ["thread"],
    help: "Delay of a thread's event loop, 99th percentile of two seconds",
  },
  cgn_router_breaker_state: {
    type: "gauge",
    labels: ["worker"],
    help: "Circuit breaker of a worker that failed: 0 closed, 1 half-open (one request tries it), 2 open. No series: never failed",
  },
  cgn_router_breaker_opened_total: { type: "counter", labels: ["worker"], help: "Times that a circuit breaker opened" },
  cgn_router_continued_total: {
    type: "counter",
    labels: ["model", "result"],
    help: "Streams whose engine died after the first token and that went on at another one, by result (ok, failed, left)",
  },
  cgn_router_cascade_steps_total: {
    type: "counter",
    labels: ["chain", "model", "result"],
    help: "Models that cascades asked, by result (kept: sure of its answer, escalated: not, failed, skipped: it could not be judged, last: not judged)",
  },
  cgn_router_cascade_doubt: {
    type: "histogram",
    labels: ["chain", "model"],
    help: "Minus the mean log probability of the tokens by which a cascade judged an answer",
    buckets: [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10],
  },
  cgn_router_retries_total: {
    type: "counter",
    labels: ["model", "reason"],
    help: "Second attempts before a first byte",
  },
  cgn_router_client_left_total: { type: "counter", labels: ["model"], help: "Clients gone before their answer ended" },
  cgn_router_kvcached_live: {
    type: "gauge",
    labels: ["kvcached"],
    help: "1 while the copy of this kvcached's index is up to date; 0: routing goes on with an older one",
  },
  cgn_router_kvcached_age_seconds: {
    type: "gauge",
    labels: ["kvcached"],
    help: "Time since this kvcached was last heard: how old the copy of its index is",
  },
  cgn_router_connections: { type: "gauge", labels: [], help: "Open client connections" },
  cgn_agent_engine_ready: {
    type: "gauge",
    labels: ["model"],
    help: "Engines of the model that are ready on this node",
  },
  cgn_agent_engine_state: {
    type: "gauge",
    labels: ["worker", "state"],
    help: "1 for the state an engine is in (starting, ready, draining, down)",
  },
  cgn_agent_engine_loads_total: {
    type: "counter",
    labels: ["worker", "how"],
    help: "Loads of engines that are loaded on demand, by how: start, or wake",
  },
  cgn_agent_engine_starts_total: { type: "counter", labels: ["worker"], help: "Engine processes started" },
  cgn_agent_engine_exits_total: {
    type: "counter",
    labels: ["worker", "cause"],
    help: "Engine processes that ended without being asked to, by recognised cause",
  },
  cgn_agent_engine_load_seconds: {
    type: "histogram",
    labels: ["model"],
    help: "Time from the start of an engine process until it was ready",
    buckets: START_S,
  },
  cgn_agent_engine_log_dropped_bytes_total: {
    type: "counter",
    labels: ["worker"],
    help: "Engine output that could not be written to its log file (disk full)",
  },
  cgn_kvcached_lookup_seconds: {
    type: "histogram",
    labels: [],
    help: "Time of one prefix look-up",
    buckets: DECISION_S,
  },
  cgn_kvcached_blocks: { type: "gauge", labels: ["tier"], help: "Blocks known, by the tier they lie in" },
  cgn_kvcached_lookups_total: { type: "counter", labels: ["result"], help: "Look-ups, by result (hit, miss)" },
  cgn_kvcached_index_bytes: { type: "gauge", labels: [], help: "Memory that the index takes" },
  cgn_kvcached_index_cap_bytes: { type: "gauge", labels: [], help: "Memory that the index may take" },
  cgn_kvcached_index_runs: { type: "gauge", labels: [], help: "Runs (nodes) in the index" },
  cgn_kvcached_index_dropped_blocks_total: {
    type: "counter",
    labels: [],
    help: "Blocks forgotten because the index was at its cap",
  },
  cgn_kvcached_events_total: { type: "counter", labels: ["worker", "type"], help: "KV events taken in" },
  cgn_kvcached_event_gaps_total: { type: "counter", labels: ["worker"], help: "Gaps in an event stream" },
  cgn_kvcached_events_malformed_total: {
    type: "counter",
    labels: ["worker"],
    help: "Event frames that were unreadable",
  },
  cgn_kvcached_source_restarts_total: {
    type: "counter",
    labels: ["worker"],
    help: "Engine restarts seen in its events",
  },
  cgn_kvcached_source_live: {
    type: "gauge",
    labels: ["worker"],
    help: "1 when the knowledge of a worker is up to date",
  },
  cgn_kvcached_alarm: {
    type: "gauge",
    labels: ["worker", "alarm"],
    help: "1 while the alarm stands (docs/alarms.md)",
  },
  cgn_kvcached_predicted_tokens_total: {
    type: "counter",
    labels: ["worker"],
    help: "Cached tokens predicted, of requests whose engine reported a figure",
  },
  cgn_kvcached_reported_tokens_total: {
    type: "counter",
    labels: ["worker"],
    help: "Cached tokens that engines reported",
  },
  cgn_kvcached_predictions_total: {
    type: "counter",
    labels: ["worker", "result"],
    help: "Predictions that an engine's figure was compared with: exact, in_flight (an event came after the request was sent), estimated (no events), unexplained",
  },
  cgn_kvcached_canonicity_tokens_total: {
    type: "counter",
    labels: ["worker", "result"],
    help: "Stored tokens by what the canonicity check did: checked, skipped (too much at once), sent (a router had sent that text)",
  },
  cgn_kvcached_uncounted_blocks_total: {
    type: "counter",
    labels: ["worker"],
    help: "Blocks that do not count: generated tokens that are not those of their text",
  },
  cgn_kvcached_watchers: { type: "gauge", labels: [], help: "Routers and others that keep a copy of the index" },
  cgn_kvcached_snapshot_age_seconds: {
    type: "gauge",
    labels: [],
    help: "Time since the last snapshot was written: by this run, or before one was, by the run whose file was read at the start. No series: there is none",
  },
  cgn_kvcached_snapshot_bytes: { type: "gauge", labels: [], help: "Size of the last snapshot" },
  cgn_kvcached_snapshot_failures_total: {
    type: "counter",
    labels: ["what"],
    help: "Snapshots that failed: write, or read (the file was damaged and put aside)",
  },
  cgn_kvcached_workers: { type: "gauge", labels: [], help: "Workers followed" },
  cgn_router_federated_requests_total: {
    type: "counter",
    labels: ["peer", "result"],
    help: "Requests handed to another cluster's router, by what came of it: as outcome of cgn_router_requests_total, or refused (it could not take it either)",
  },
  cgn_router_federation_peer_up: {
    type: "gauge",
    labels: ["peer"],
    help: "1 when another cluster's router answers",
  },
  cgn_tls_certificate_expiry_timestamp_seconds: {
    type: "gauge",
    labels: [],
    help: "When this process's certificate is over, in seconds since 1970. No series: it has none",
  },
  cgn_tls_files_usable: {
    type: "gauge",
    labels: [],
    help: "1 when the files of [security] are used as they are; 0: they changed, cannot be used, and the ones before are",
  },
  cgn_tls_refused_total: {
    type: "counter",
    labels: [],
    help: "Connections that were refused because the other side did not prove itself, or spoke no TLS",
  },
} as const satisfies Record<string, MetricRow>;

export type MetricName = keyof typeof METRICS;
