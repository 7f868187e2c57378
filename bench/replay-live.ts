import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { systemClock } from "../src/cli/system-clock.ts";
import { createMemoryDirectory } from "../src/cluster/memory-directory.ts";
import { SILENT_LOG } from "../src/core/log.ts";
import { ENGINES } from "../src/engines/registry.ts";
import { createKvcached } from "../src/kvcached/service.ts";
import { createRouter } from "../src/router/create-router.ts";
import { watchEngines } from "../src/router/engine-watch.ts";
import { createModelTemplates } from "../src/router/model-templates.ts";
import { prefixHash } from "../src/routing/rendezvous.ts";
import { PROFILES } from "../src/sim/model/profile.ts";
import { seededDice } from "../src/sim/replay/dice.ts";
import { openTrace } from "../src/sim/replay/read-trace.ts";
import { runReplay } from "../src/sim/replay/run-replay.ts";
import { Sample } from "../src/sim/replay/sample.ts";
import { slowerProfile } from "../src/sim/replay/slower-profile.ts";
import type { TraceRequest } from "../src/sim/replay/trace.ts";
import type { SimDeps } from "../src/sim/wire/sim-engine.ts";
import { type SimServer, startSim } from "../src/sim/wire/sim-server.ts";
import { readVllmArgv } from "../src/sim/wire/vllm-argv.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const TRACE = join(import.meta.dirname, "..", "..", "shared", "traces", "mooncake-conversation.jsonl");
const POLICIES = ["ttft", "weighted", "least_loaded", "random"] as const;
const FLEET = 4;
/** The trace's blocks of 512 tokens become blocks of so many, its lengths shrink alike: a byte is a token here. */
const BLOCK = 64;
const SCALE = 512 / BLOCK;
/** Larger caches than the chats fill: what is evicted when hangs on milliseconds, and makes two equal runs differ by 5 %. */
const BLOCKS = 2000;
/** Engines this much slower than the default profile: timers that are late by some ms then do not matter. */
const SLOWER = 5;
/** Chats with so many turns among the first requests of the trace: what routers differ in is the prefixes that they share. */
const TURNS = 4;
const LOOKED_AT = 4000;
const RATE_PER_S = 1.5;
const REQUESTS = 150;

interface LiveOptions {
  readonly json: boolean;
  readonly quick?: boolean;
  readonly trace?: string | undefined;
}

/**
 * The same requests in virtual time (`cgn replay`) and live: simulated engines on the wire behind the router, in real time. TTFT mean
 * of each policy both ways, how far they are apart, and whether the policies come in the same order. An idle machine is needed.
 */
export async function run(options: LiveOptions): Promise<BenchResult> {
  const file = options.trace ?? TRACE;
  if (!existsSync(file)) throw new Error(`No trace at ${file}: give one with --trace FILE (Mooncake JSON lines)`);
  const requests = await slice(file, options.quick === true ? 100 : REQUESTS);
  const rows: { policy: string; virtual: number; live: number; hits: number; liveHits: number; late: number }[] = [];
  for (const policy of POLICIES) {
    const seen = await live(requests, policy);
    const predicted = await virtually(requests, policy, seen.names);
    rows.push({
      policy,
      virtual: predicted.ttftMs.mean,
      live: seen.ttft.mean(),
      hits: predicted.cachedTokenShare,
      liveHits: seen.cachedShare,
      late: seen.late.at(0.99),
    });
    if (!options.json) console.log(JSON.stringify(rows.at(-1)));
  }
  const order = (of: "virtual" | "live") => [...rows].sort((a, b) => a[of] - b[of]).map(({ policy }) => policy);
  const sameOrder = order("virtual").join() === order("live").join();
  const figures: BenchFigure[] = rows.flatMap((row) => [
    figure(row.policy, "TTFT mean, virtual", "ms", [row.virtual]),
    figure(row.policy, "TTFT mean, live", "ms", [row.live]),
    figure(row.policy, "live over virtual", "percent", [(row.live / row.virtual - 1) * 100]),
    figure(row.policy, "cached prompt tokens, virtual", "percent", [row.hits * 100]),
    figure(row.policy, "cached prompt tokens, live", "percent", [row.liveHits * 100]),
    figure(row.policy, "requests sent late, p99", "ms", [row.late]),
  ]);
  const result = {
    bench: "replay-live",
    results: [...figures, figure("order", "same order", "1 is yes", [Number(sameOrder)])],
    machine: machine(),
  };
  printResult(result, options.json);
  return result;
}

/** Chats of the trace that have several turns, made smaller, at random times. */
async function slice(file: string, count: number): Promise<readonly TraceRequest[]> {
  const trace = await openTrace({ file, limit: LOOKED_AT, repeat: 1, speed: 1, prefixShare: 0, seed: 1 });
  const all: TraceRequest[] = [];
  for await (const batch of trace.requests()) all.push(...batch);
  const turns = new Map<number, number>();
  const chatOf = ({ blocks }: TraceRequest): number => blocks[1] ?? -1;
  for (const request of all) turns.set(chatOf(request), (turns.get(chatOf(request)) ?? 0) + 1);
  const chosen = all
    .filter((request) => request.blocks.length > 1 && turns.get(chatOf(request))! >= TURNS)
    .slice(0, count);
  const roll = seededDice(1);
  let at = 0;
  return chosen.map((request) => {
    at += (-Math.log(1 - roll()) / RATE_PER_S) * 1000;
    const promptTokens = Math.max(1, Math.round(request.promptTokens / SCALE));
    return {
      at,
      promptTokens,
      outputTokens: Math.max(1, Math.round(request.outputTokens / SCALE)),
      blocks: request.blocks.slice(0, Math.ceil(promptTokens / BLOCK)),
    };
  });
}

const LIMITS = {
  blocks: BLOCKS,
  blockTokens: BLOCK,
  maxBatchedTokens: 1024,
  maxSequences: 64,
  prefixCaching: true,
  generatedBlocks: "as-filled",
  publishesWhenIdle: false,
} as const;

/** With the live fleet's names, since near ties are decided by hashes of names. */
async function virtually(requests: readonly TraceRequest[], policy: string, names: readonly string[]) {
  const trace = {
    name: "slice",
    format: "slice",
    blockTokens: BLOCK,
    knowsBlocks: true,
    notes: [],
    async *requests() {
      yield requests;
    },
  };
  const { figures } = await runReplay(
    trace,
    {
      policy,
      routers: 1,
      engines: FLEET,
      limits: LIMITS,
      profile: slowerProfile(PROFILES["default"]!, SLOWER),
      gpusPerEngine: 1,
      seed: 1,
      live: { engines: names, prefixOf: (request) => prefixHash("", Buffer.from(textOf(request))) },
      knowledge: "events",
      knowledgeDelayMs: 5,
      historyEntries: 32,
      lostEvents: 0,
      failures: [],
      admission: {},
    },
    { label: policy, kvOffload: "none", wallNow: () => performance.now() },
  );
  return figures;
}

const clock = systemClock();
let serial = 0;
const DEPS: SimDeps = {
  clock,
  newId: () => (serial++).toString(16).padStart(32, "0"),
  crash: () => {},
  exit: () => {},
};

async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

async function startFleet(): Promise<readonly SimServer[]> {
  const engines: SimServer[] = [];
  for (let i = 0; i < FLEET; i++) {
    const events = {
      enable_kv_cache_events: true,
      publisher: "zmq",
      endpoint: `tcp://*:${await freePort()}`,
      replay_endpoint: `tcp://*:${await freePort()}`,
      topic: "",
    };
    const flags: Readonly<Record<string, string | number>> = {
      "--port": 0,
      "--served-model-name": "sim",
      "--block-size": BLOCK,
      "--max-num-batched-tokens": LIMITS.maxBatchedTokens,
      "--max-num-seqs": LIMITS.maxSequences,
      "--sim-profile": "default",
      "--sim-speed": 1 / SLOWER,
      "--sim-blocks": BLOCKS,
      "--kv-events-config": JSON.stringify(events),
    };
    const argv = Object.entries(flags).flatMap(([flag, value]) => [flag, String(value)]);
    const options = readVllmArgv(["serve", "sim", "--enable-prompt-tokens-details", ...argv], { PYTHONHASHSEED: "0" });
    engines.push(await startSim(options, DEPS));
  }
  return engines;
}

async function live(requests: readonly TraceRequest[], policy: string) {
  const engines = await startFleet();
  const directory = createMemoryDirectory();
  const kvcached = createKvcached({ clock, capBytes: 2 ** 26, seed: 1, env: {} });
  kvcached.follow(directory);
  const router = createRouter({
    settings: {
      listenHttp: { host: "127.0.0.1", port: 0 },
      listenAdmin: { host: "127.0.0.1", port: 0 },
      nodeId: "bench",
      policy,
      maxBodyBytes: 2 ** 20,
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
      admission: {},
      loadWait: { timeoutMs: 10_000, keepAliveMs: 5_000 },
    },
    directory,
    knowledge: kvcached,
    renderers: createModelTemplates({ clock, env: {}, log: SILENT_LOG }),
    clock,
    log: SILENT_LOG,
    metrics: createMetrics({ processMetrics: false }),
  });
  await router.start();
  const watch = watchEngines({
    specs: engines.map(({ url }) => ({ url, tokenizer: {} })),
    engines: ENGINES,
    directory,
    clock,
    log: SILENT_LOG,
  });
  await watch.first;
  await new Promise((resolve) => setTimeout(resolve, 1000));
  try {
    const names = directory.list().map(({ id }) => id);
    return { names, ...(await sendAll(`http://127.0.0.1:${router.address.port}/v1/completions`, requests)) };
  } finally {
    watch.close();
    await router.close();
    kvcached.close();
    for (const engine of engines) await engine.close();
  }
}

async function sendAll(url: string, requests: readonly TraceRequest[]) {
  const ttft = new Sample();
  const late = new Sample();
  let cached = 0;
  let prompts = 0;
  const start = performance.now();
  const sent: Promise<void>[] = [];
  for (const request of requests) {
    const due = start + request.at;
    const wait = due - performance.now();
    if (wait > 0.5) await new Promise((resolve) => setTimeout(resolve, wait));
    late.add(Math.max(0, performance.now() - due));
    sent.push(
      send(url, request).then(({ ttftMs, cachedTokens }) => {
        ttft.add(ttftMs);
        cached += cachedTokens;
        prompts += request.promptTokens;
      }),
    );
  }
  await Promise.all(sent);
  return { ttft, late, cachedShare: cached / prompts };
}

async function send(url: string, request: TraceRequest): Promise<{ ttftMs: number; cachedTokens: number }> {
  const body = JSON.stringify({
    model: "sim",
    prompt: textOf(request),
    max_tokens: request.outputTokens,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  const started = performance.now();
  const res = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  let ttftMs: number | undefined;
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of res.body!) {
    ttftMs ??= performance.now() - started;
    text += decoder.decode(part as Uint8Array, { stream: true });
  }
  if (res.status !== 200 || ttftMs === undefined)
    throw new Error(`The router answered ${res.status}: ${text.slice(0, 300)}`);
  const [, cachedTokens = "0"] = /"cached_tokens":\s*(\d+)/.exec(text) ?? [];
  return { ttftMs, cachedTokens: Number(cachedTokens) };
}

/** A byte a token; equal blocks are equal texts. */
function textOf({ blocks, promptTokens }: TraceRequest): string {
  const text = blocks.map((key) => `${key.toString(36)} `.repeat(BLOCK).slice(0, BLOCK)).join("");
  return text.slice(0, promptTokens);
}
