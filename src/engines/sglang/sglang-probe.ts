import type { KvSource } from "../../core/worker.ts";
import { hostPort, isWildcardHost } from "../address.ts";
import type { EngineLoad, EngineProbe, ProbeReply } from "../engine.ts";
import {
  countOf,
  fieldsOf,
  metricMax,
  metricSum,
  metricTotal,
  readJson,
  readModelList,
  readSimulatedTokenizer,
  textOf,
} from "../probe-text.ts";

/**
 * Readers of SGLang's answers (0.5.23).
 *
 * `/health` runs a probe of one token and takes over a second for a 200; it is 503 while starting, and again while draining.
 * `/v1/loads` is not used: it says 0 running during a generation.
 */
export const sglangProbe: EngineProbe = {
  // The probe of one token queues behind the batch that runs.
  ready: { path: "/health", verdict, answerMs: 10_000 },
  metrics: { path: "/metrics", parse: parseLoad },
  models: { path: "/v1/models", parse: readModelList },
  kvSources: { path: "/server_info", parse: parseKvSources },
  blockTokens: { path: "/server_info", parse: parseBlockTokens },
  apiKey: { flags: ["--api-key"], variables: [] },
  tokenizer: { path: "/server_info", parse: readSimulatedTokenizer },
  version: { path: "/server_info", parse: (body) => textOf(serverInfo(body)["version"]) },
};

function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if (status === 200) return "ready";
  return status === 0 || status === 503 ? "loading" : "failed";
}

/** `generation_tokens_total` moves when a request ends; the others while it runs (names of 0.5.23, `fixtures/sglang`). */
const WORK = [
  "sglang:generation_tokens_total",
  "sglang:prompt_tokens_total",
  "sglang:realtime_tokens_total",
  "sglang:cuda_graph_passes_total",
  "sglang:num_used_tokens",
];

/** Gauges of all ranks: requests add up, the fullest KV pool counts. */
function parseLoad(text: string): EngineLoad {
  const running = metricSum(text, "sglang:num_running_reqs");
  const waiting = metricSum(text, "sglang:num_queue_reqs");
  const kvUsage = metricMax(text, "sglang:token_usage");
  const progress = metricTotal(text, WORK);
  return {
    ...(running === undefined ? {} : { running }),
    ...(waiting === undefined ? {} : { waiting }),
    ...(kvUsage === undefined ? {} : { kvUsage: Math.min(1, Math.max(0, kvUsage)) }),
    ...(progress === undefined ? {} : { progress }),
  };
}

function serverInfo(body: string): Readonly<Record<string, unknown>> {
  return fieldsOf(readJson(body));
}

/** One source a data-parallel rank: rank r publishes at base + r. Empty when events are off. */
function parseKvSources(body: string, host: string): KvSource[] {
  const events = fieldsOf(serverInfo(body)["kv_events"]);
  const base = countOf(events["endpoint_port_base"]);
  if (events["publisher"] !== "zmq" || base === undefined) return [];
  const published = textOf(events["endpoint_host"]) ?? "*";
  const replayBase = countOf(events["replay_endpoint_port_base"]);
  const ranks = Math.min(countOf(events["dp_size"]) ?? 1, MAX_RANKS);
  return Array.from({ length: ranks }, (_, dpRank) => ({
    type: "events" as const,
    endpoint: endpointOf(published, host, base + dpRank),
    ...(replayBase === undefined ? {} : { replay: endpointOf(published, host, replayBase + dpRank) }),
    topic: textOf(events["topic"]) ?? "",
    dpRank,
  }));
}

/** An answer must not be able to make us open any number of sockets. */
const MAX_RANKS = 1024;

/** On the publisher's address, or on the worker's own host where that is a wildcard. */
function endpointOf(published: string, host: string, port: number): string {
  return `tcp://${hostPort(isWildcardHost(published) ? host : published, port)}`;
}

/** `kv_events.block_size` is what the events say; `page_size` is the same where events are off. */
function parseBlockTokens(body: string): number | undefined {
  const info = serverInfo(body);
  return countOf(fieldsOf(info["kv_events"])["block_size"]) ?? countOf(info["page_size"]);
}
