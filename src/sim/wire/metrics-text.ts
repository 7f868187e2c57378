import type { EngineLoop } from "./engine-loop.ts";
import type { Histogram } from "./histogram.ts";
import type { SimOptions } from "./sim-options.ts";

type Labels = Readonly<Record<string, string>>;

/** Prometheus text, family by family. */
class MetricsText {
  readonly #lines: string[] = [];
  readonly #labels: Labels;

  constructor(labels: Labels) {
    this.#labels = labels;
  }

  family(name: string, type: "gauge" | "counter" | "histogram", help: string): this {
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    return this;
  }

  sample(name: string, value: number, labels: Labels = {}): this {
    const all = Object.entries({ ...this.#labels, ...labels }).sort(([a], [b]) => (a < b ? -1 : 1));
    const text = all.map(([key, v]) => `${key}="${v.replace(/[\\"\n]/g, "\\$&")}"`).join(",");
    this.#lines.push(`${name}{${text}} ${Number.isInteger(value) ? value.toFixed(1) : value}`);
    return this;
  }

  gauge(name: string, help: string, value: number, labels: Labels = {}): this {
    return this.family(name, "gauge", help).sample(name, value, labels);
  }

  /** One counter, or one a labels set. */
  counter(name: string, help: string, values: readonly (readonly [number, Labels?])[]): this {
    this.family(name, "counter", help);
    for (const [value, labels] of values) this.sample(name, value, labels);
    return this;
  }

  histogram(name: string, help: string, histogram: Histogram): this {
    this.family(name, "histogram", help);
    const counts = histogram.cumulative();
    histogram.bounds.forEach((bound, i) => {
      this.sample(`${name}_bucket`, counts[i]!, { le: Number.isInteger(bound) ? bound.toFixed(1) : String(bound) });
    });
    this.sample(`${name}_bucket`, histogram.count, { le: "+Inf" });
    this.sample(`${name}_count`, histogram.count);
    return this.sample(`${name}_sum`, histogram.sum);
  }

  toString(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}

/** `/metrics` with vLLM 0.32.0's names and labels, those that say something about the model. */
export function vllmMetrics(options: SimOptions, loop: EngineLoop): string {
  const { model, latency } = loop;
  const c = model.counters;
  const text = new MetricsText({ engine: "0", model_name: options.models[0] });
  text.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", model.running);
  text.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", model.waiting);
  text.family("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.");
  text.sample("vllm:num_requests_waiting_by_reason", model.waiting, { reason: "capacity" });
  text.sample("vllm:num_requests_waiting_by_reason", 0, { reason: "deferred" });
  const usage = model.usedBlocks / options.limits.blocks;
  text.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage);
  text.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in tokens.", [[c.queriedTokens]]);
  text.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in tokens.", [[c.hitTokens]]);
  // The connector is asked for what the device does not have.
  const asked = (options.limits.tiers ?? []).length === 0 ? 0 : c.queriedTokens - c.hitTokens;
  text.counter("vllm:external_prefix_cache_queries_total", "External prefix cache queries, in tokens.", [[asked]]);
  text.counter("vllm:external_prefix_cache_hits_total", "External prefix cache hits, in tokens.", [[c.tierHitTokens]]);
  text.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", [[c.preemptions]]);
  text.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", [[c.promptTokens]]);
  text.counter("vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.", [
    [Math.max(0, c.promptTokens - c.hitTokens - c.tierHitTokens), { source: "local_compute" }],
    [c.hitTokens, { source: "local_cache_hit" }],
    [c.tierHitTokens, { source: "external_kv_transfer" }],
  ]);
  text.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).", [
    [c.hitTokens + c.tierHitTokens],
  ]);
  text.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", [[c.generatedTokens]]);
  // Aborted requests are not counted as such (seen on the real engine).
  const { stop, length } = c.finished;
  text.counter(
    "vllm:request_success_total",
    "Count of successfully processed requests.",
    Object.entries({ stop, length, abort: 0, error: 0, repetition: 0 }).map(([reason, n]) => [
      n,
      { finished_reason: reason },
    ]),
  );
  text.histogram(
    "vllm:time_to_first_token_seconds",
    "Histogram of time to first token in seconds.",
    latency.firstToken,
  );
  text.histogram(
    "vllm:inter_token_latency_seconds",
    "Histogram of inter-token latency in seconds.",
    latency.interToken,
  );
  text.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", latency.endToEnd);
  text.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1, cacheConfig(options));
  return text.toString();
}

function cacheConfig(options: SimOptions): Labels {
  const { blocks, blockTokens, prefixCaching } = options.limits;
  return {
    block_size: String(blockTokens),
    cache_dtype: "auto",
    enable_prefix_caching: prefixCaching ? "True" : "False",
    kv_cache_size_tokens: String(blocks * blockTokens),
    num_gpu_blocks: String(blocks + 1),
    prefix_caching_hash_algo: options.hashAlgorithm,
  };
}

/** `/metrics` with SGLang 0.5.23's names and labels, those that say something about the model. */
export function sglangMetrics(options: SimOptions, loop: EngineLoop): string {
  const { model, latency } = loop;
  const c = model.counters;
  const { blocks, blockTokens } = options.limits;
  const total = blocks * blockTokens;
  const used = model.usedBlocks * blockTokens;
  const rank: Labels = { moe_ep_rank: "0", pp_rank: "0", tp_rank: "0" };
  const text = new MetricsText({ engine_type: "unified", model_name: options.models[0] });
  text.gauge("sglang:num_running_reqs", "The number of running requests.", model.running, rank);
  text.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", model.waiting, rank);
  text.gauge("sglang:num_used_tokens", "The number of used tokens.", used, rank);
  text.gauge("sglang:token_usage", "The token usage.", used / total, rank);
  text.gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", total, rank);
  text.gauge("sglang:page_size", "KV cache page size in tokens.", blockTokens, rank);
  text.gauge("sglang:num_pages", "Number of KV cache pages.", blocks, rank);
  text.gauge("sglang:context_len", "Maximum context length.", options.maxModelTokens, rank);
  const rate = c.queriedTokens === 0 ? 0 : c.hitTokens / c.queriedTokens;
  text.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", rate, rank);
  text.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", [[c.promptTokens]]);
  text.counter("sglang:generation_tokens_total", "Number of generation tokens processed.", [[c.generatedTokens]]);
  text.counter("sglang:cached_tokens_total", "Number of cached prompt tokens by source (device/host/storage).", [
    [c.hitTokens, { cache_source: "device" }],
  ]);
  text.counter("sglang:num_requests_total", "Number of requests processed.", [[c.finished.stop + c.finished.length]]);
  text.histogram(
    "sglang:time_to_first_token_seconds",
    "Histogram of time to first token in seconds.",
    latency.firstToken,
  );
  text.histogram(
    "sglang:inter_token_latency_seconds",
    "Histogram of inter-token latency in seconds.",
    latency.interToken,
  );
  text.histogram(
    "sglang:e2e_request_latency_seconds",
    "Histogram of End-to-end request latency in seconds",
    latency.endToEnd,
  );
  return text.toString();
}
