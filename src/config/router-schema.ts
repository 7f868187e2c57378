import { z } from "zod";
import { POLICY_NAMES } from "../routing/policies.ts";
import { answerKeys } from "./answer-schema.ts";
import { cascadeSection } from "./cascade-schema.ts";
import {
  about,
  duration,
  flag,
  listen,
  optionalDuration,
  optionalText,
  optionalUrl,
  textList,
} from "./schema-fields.ts";

const weight = (meaning: string, fallback: number) =>
  about(z.number().min(0).default(fallback), `${meaning} (policy \`weighted\`)`, { unit: "share" });

const scoreWeights = z
  .strictObject({
    kv: weight("Weight of the prompt's share that is cached", 0.55),
    load: weight("Weight of a worker's free concurrency", 0.25),
    power: weight("Weight of a worker's power head-room", 0.1),
    capacity: weight("Weight of a worker's free KV space", 0.1),
  })
  .prefault({});

const binds = (fallback: string) => ({
  defaultText: `no limit (policy \`weighted\` normalises by ${fallback})`,
});

const admission = z
  .strictObject({
    max_queue: about(
      z.int().min(0).optional(),
      "Requests that may wait; more are answered 429. Binds only when written",
      {
        unit: "requests",
        ...binds("1024"),
      },
    ),
    ttft_slo: optionalDuration(
      "Longest predicted time to first token; a request above it is answered 429. Binds only when written",
      binds("800ms"),
    ),
    max_concurrent_per_replica: about(
      z.int().min(1).optional(),
      "Requests in flight on one worker. Binds only when written: otherwise the engine's own limit holds",
      { unit: "requests", ...binds("16") },
    ),
    queue_timeout: optionalDuration("Longest wait in the queue. Binds only when written", { defaultText: "no limit" }),
  })
  .prefault({});

const rateLimit = z
  .strictObject({
    enabled: about(z.boolean().optional(), "Limit request rates", {
      defaultText: "true when a limit is written (`rps`, `…_per_subject`), else false",
    }),
    rps: about(
      z.number().positive().default(50),
      "Requests a second, all subjects together. Binds when it, or `enabled = true`, is written",
      {
        unit: "requests/s",
      },
    ),
    burst: about(z.int().min(1).default(200), "Requests that may come at once", { unit: "requests" }),
    rps_per_subject: about(z.number().positive().optional(), "Requests a second of one API key or token subject", {
      unit: "requests/s",
      defaultText: "no limit",
    }),
    rpm_per_subject: about(z.int().min(1).optional(), "Requests a minute of one API key or token subject", {
      unit: "requests/min",
      defaultText: "no limit",
    }),
    tpm_per_subject: about(
      z.int().min(1).optional(),
      "Prompt and generated tokens a minute of one API key or token subject",
      { unit: "tokens/min", defaultText: "no limit" },
    ),
    concurrent_per_subject: about(
      z.int().min(1).optional(),
      "Requests in flight of one API key or token subject, on each router",
      { unit: "requests", defaultText: "no limit" },
    ),
    redis_url: optionalUrl(
      "Redis through which routers share their limits, for example `redis://10.0.0.9:6379/0`",
      ["redis", "rediss"],
      { secret: true, defaultText: "each router counts alone" },
    ),
    on_redis_loss: about(
      z.enum(["local", "open", "closed"]).default("local"),
      "While Redis does not answer: `local` each router counts alone, `open` limits nothing, `closed` refuses requests that have a limit",
    ),
  })
  .prefault({});

const cors = z
  .strictObject({
    origins: about(
      textList().prefault([]),
      'Web pages that may call the router: `"https://app.example.com"`, or `"*"` for any. Empty: none',
      { unit: "origin" },
    ),
    headers: about(
      textList().prefault([]),
      "More request headers that pages may send, beside the usual ones of OpenAI's and Anthropic's clients",
    ),
    max_age: duration("How long browsers may remember the answer", 600_000),
  })
  .prefault({});

const disagg = z
  .strictObject({
    enabled: about(
      z.boolean().optional(),
      "Send long prompts to a prefill worker, then to a decode worker. Not written: wherever there are engines of both roles that go together",
    ),
    prefill_timeout: duration("A prefill leg without an answer for so long has failed", 120_000),
    colocate_below_tokens: about(z.int().min(0).default(256), "Shorter uncached prompts are not split", {
      unit: "tokens",
    }),
  })
  .prefault({});

const federation = z
  .strictObject({
    enabled: flag("Hand requests that no engine here can take (in time) to other clusters, as a last resort", false),
    peers: about(textList().prefault([]), "Routers of other clusters, asked in this order", { unit: "URL" }),
    key: optionalText("API key of ours with them", { secret: true, defaultText: "none is sent" }),
    max_hops: about(
      z.int().min(0).max(16).default(1),
      "How often one request may be handed on, counted from its client",
      {
        unit: "clusters",
      },
    ),
    health_interval: duration("How often they are asked whether they are there, and for their models", 5_000),
  })
  .prefault({});

const autoscaler = z
  .strictObject({
    enabled: flag("Scale replicas (original)", false, { unsupported: true }),
    idle_util_pct: about(z.number().min(0).max(100).default(15), "GPU utilisation that counts as idle", {
      unit: "percent",
      unsupported: true,
    }),
    high_watt_threshold: about(z.number().min(0).default(350), "Power that counts as high", {
      unit: "watts",
      unsupported: true,
    }),
    deadline_admission: flag("Refuse requests that would miss their deadline (original)", false, { unsupported: true }),
  })
  .prefault({});

/** `[router]`: the OpenAI-compatible front door. */
export const routerSchema = z.strictObject({
  listen_http: listen("Where clients send requests", "0.0.0.0:8080"),
  listen_grpc: listen("Where other daemons reach the router by gRPC", "0.0.0.0:9090"),
  listen_admin: listen(
    "Metrics, health, status and the dashboard. Off loopback without an admin key only health and metrics are served",
    "127.0.0.1:9091",
  ),
  node_id: optionalText("Name of this router", { defaultText: "the host name" }),
  worker_threads: about(
    z.int().min(0).max(256).default(0),
    "Threads that have clients' connections, beside the main thread; 0 and 1: the main thread has them itself",
    { unit: "threads" },
  ),
  policy: about(
    z.enum(POLICY_NAMES).default("ttft"),
    "How a worker is chosen: `ttft` by the least predicted time to first token; the others for comparison",
  ),
  max_body_bytes: about(
    z
      .int()
      .min(1024)
      .default(64 * 1024 * 1024),
    "Largest request body; above it 413",
    {
      unit: "bytes",
    },
  ),
  ...answerKeys,
  request_log: optionalText(
    "File that gets one JSON line a request, without content: times, lengths, salted hashes of the prompt's bytes. `cgn trace export` makes a trace of it",
    { unit: "path", defaultText: "none is written" },
  ),
  score_weights: about(scoreWeights, "Weights of the policy `weighted`"),
  admission: about(admission, "Limits. Each binds only when it is written"),
  rate_limit: about(rateLimit, "Request rates"),
  cors: about(cors, "Calls from web pages"),
  disagg: about(disagg, "Prefill and decode on different workers"),
  cascade: about(
    cascadeSection,
    "Small models first: a larger one is asked when they are not sure ([cascade.md](cascade.md))",
  ),
  federation: about(federation, "Other clusters"),
  autoscaler: about(autoscaler, "Autoscaler of the original", { unsupported: true }),
});
