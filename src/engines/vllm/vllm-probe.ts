import type { KvSource } from "../../core/worker.ts";
import { dialEndpoint } from "../address.ts";
import type { EngineLoad, EngineProbe, OffloadHits, ProbeReply } from "../engine.ts";
import {
  fieldsOf,
  metricMax,
  metricSum,
  metricTotal,
  readJson,
  readModelList,
  readSimulatedTokenizer,
  textOf,
} from "../probe-text.ts";

/** Readers of what vLLM answers (0.24 to 0.33; bodies captured from 0.32.0). None throws: what is not understood is absent. */
export const vllmProbe: EngineProbe = {
  ready: { path: "/health", verdict },
  metrics: { path: "/metrics", parse: parseLoad },
  models: { path: "/v1/models", parse: readModelList },
  kvSources: { path: "/kv_event_sources", parse: parseKvSources },
  blockTokens: { path: "/metrics", parse: parseBlockTokens },
  apiKey: { flags: ["--api-key"], variables: ["VLLM_API_KEY"] },
  tokenizer: { path: "/version", parse: readSimulatedTokenizer },
  offloadHits: { path: "/metrics", parse: parseOffloadHits },
  version: { path: "/version", parse: (body) => textOf(fieldsOf(readJson(body))["version"]) },
};

/**
 * vLLM refuses connections until it can answer; a 503 comes only once its engine process is dead.
 */
function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if (status === 200) return "ready";
  return status === 0 ? "loading" : "failed";
}

/** Counted at each step of the engine (`vllm/v1/metrics/loggers.py`, 0.32.0); prompt tokens when a prefill is through. */
const WORK = ["vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count"];

/** Sums over data-parallel ranks; of the KV usage the fullest rank's. `gpu_cache_usage_perc` is its name before 0.11. */
function parseLoad(text: string): EngineLoad {
  const running = metricSum(text, "vllm:num_requests_running");
  const waiting = metricSum(text, "vllm:num_requests_waiting");
  const kvUsage = metricMax(text, "vllm:kv_cache_usage_perc") ?? metricMax(text, "vllm:gpu_cache_usage_perc");
  const progress = metricTotal(text, WORK);
  return {
    ...(running === undefined ? {} : { running }),
    ...(waiting === undefined ? {} : { waiting }),
    ...(kvUsage === undefined ? {} : { kvUsage }),
    ...(progress === undefined ? {} : { progress }),
  };
}

/** What a KV connector was asked for and gave (`vllm/v1/metrics/loggers.py`, 0.32.0); 0 of both without one. */
function parseOffloadHits(text: string): OffloadHits | undefined {
  const queriedTokens = metricSum(text, "vllm:external_prefix_cache_queries_total");
  const hitTokens = metricSum(text, "vllm:external_prefix_cache_hits_total");
  return queriedTokens === undefined || hitTokens === undefined ? undefined : { queriedTokens, hitTokens };
}

/** The block size that the engine really took, from a label of `vllm:cache_config_info`. */
function parseBlockTokens(text: string): number | undefined {
  const line = text.split("\n").find((each) => each.startsWith("vllm:cache_config_info{"));
  const found = line === undefined ? null : /[{,]block_size="(\d+)"/.exec(line);
  const tokens = Number(found?.[1] ?? 0);
  return tokens > 0 ? tokens : undefined;
}

/**
 * `/kv_event_sources`: an object keyed by data-parallel rank, empty when events are off. The endpoints in it are the rank's
 * own already, as its publisher bound them (`ZmqEventPublisher._publisher_config`, `vllm/distributed/kv_events.py`, 0.32.0).
 */
function parseKvSources(body: string, host: string): readonly KvSource[] {
  const found = Object.entries(fieldsOf(readJson(body))).flatMap(([key, value]) => {
    const dpRank = Number(key);
    const source = fieldsOf(value);
    const endpoint = textOf(source["endpoint"]);
    if (!Number.isInteger(dpRank) || dpRank < 0 || endpoint === undefined) return [];
    if (source["enable_kv_cache_events"] !== true) return [];
    const replay = textOf(source["replay_endpoint"]);
    return [
      {
        type: "events" as const,
        endpoint: dialEndpoint(endpoint, host),
        ...(replay === undefined ? {} : { replay: dialEndpoint(replay, host) }),
        topic: textOf(source["topic"]) ?? "",
        dpRank,
      },
    ];
  });
  return found.sort((a, b) => a.dpRank - b.dpRank);
}
