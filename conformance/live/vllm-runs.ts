import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { predictLive } from "../live-prediction.ts";
import { VLLM } from "../pins.ts";
import type { Places } from "../places.ts";
import { freePorts, startAgent } from "./agent-run.ts";
import { complete, MAX_TOKENS, metric, prompts, requireVariety, textOf } from "./requests.ts";
import type { Scenario } from "./runs.ts";

/** Requests whose text must be that of one plain engine. */
const REQUESTS = 20;

/** The same for pairs that prove something else besides. */
const FEWER = 8;

/** What vLLM needs on a small machine, set by the user's own environment. */
const ENV = {
  VLLM_CPU_KVCACHE_SPACE: "1",
  UCX_TLS: "tcp,shm,self,sm",
  VLLM_SERVER_DEV_MODE: "1",
  VLLM_NO_USAGE_STATS: "1",
  DO_NOT_TRACK: "1",
  LMCACHE_TRACK_USAGE: "false",
  HF_HUB_OFFLINE: "1",
};

/** Full precision: the same text whatever part of a prompt was computed where. */
function modelToml(places: Places): string {
  return `[models.smollm2]\npath = ${JSON.stringify(places.model("smollm2"))}\ndtype = "float32"\nmax_model_len = 2048\n`;
}

interface VllmEngine {
  readonly port: number;
  readonly role?: "prefill" | "decode";
  readonly offload: string;
  /** Lines of `[engines.vllm.lmcache]`. */
  readonly lmcache?: string;
}

function engineToml({ port, role = undefined, offload, lmcache }: VllmEngine, places: Places): string {
  return `[[engines]]
kind = "vllm"
model = "smollm2"
url = "http://127.0.0.1:${port}"
kv_offload = "${offload}"
${role === undefined ? "" : `role = "${role}"\nnode_id = "${role}"\n`}
[engines.vllm]
binary = ${JSON.stringify(join(places.pin(VLLM), "bin", "vllm"))}
extra_args = ["--enforce-eager", "--max-num-seqs", "8"]
${lmcache === undefined ? "" : `[engines.vllm.lmcache]\n${lmcache}\n`}`;
}

const toml = (places: Places, engines: readonly VllmEngine[]): string =>
  [modelToml(places), ...engines.map((engine) => engineToml(engine, places))].join("\n");

const LMCACHE = 'mode = "mp"\ncpu_gib = 1\nchunk_size = 64';

const digest = (texts: readonly string[]): string =>
  createHash("sha256").update(texts.join("\0")).digest("hex").slice(0, 8);

/** Named by what was asked, so that other questions do not meet old answers. */
const baselineFile = (places: Places): string =>
  join(places.root, "baseline", `${VLLM}-${digest(prompts(REQUESTS))}-${MAX_TOKENS}.json`);

/** The texts of one plain engine, from the cache folder where they were made before. */
async function plainTexts(places: Places): Promise<string[]> {
  const file = baselineFile(places);
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as string[];
  await runPlain(places);
  return JSON.parse(readFileSync(file, "utf8")) as string[];
}

async function runPlain(places: Places): Promise<string> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const agent = await startAgent("vllm-none", toml(places, [{ port, offload: "none" }]), places, {
    ...ENV,
    VLLM_CPU_OMP_THREADS_BIND: "0",
  });
  try {
    const texts: string[] = [];
    // One more than a pair is asked: the one whose prefill is lost.
    for (const prompt of prompts(REQUESTS + 1)) texts.push(textOf(await complete(url, prompt)));
    requireVariety(texts);
    const again = await complete(url, prompts(1)[0]!);
    const cached = again.usage.prompt_tokens_details?.cached_tokens ?? 0;
    if (cached === 0) throw new Error("the second time, no token was cached");
    const file = baselineFile(places);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(texts, undefined, 1));
    await agent.stop();
    return `${texts.length} requests answered on a CPU, ${cached} tokens cached when one was repeated; ready after ${agent.startSeconds.toFixed(0)} s, no process left`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

/** LMCache in a server beside the engine: what was evicted from the engine comes back from there. */
async function runLmcache(places: Places): Promise<string> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const agent = await startAgent(
    "vllm-lmcache",
    toml(places, [{ port, offload: "lmcache", lmcache: LMCACHE }]),
    places,
    {
      ...ENV,
      VLLM_CPU_OMP_THREADS_BIND: "0",
    },
  );
  try {
    const prompt = prompts(1)[0]!;
    const first = textOf(await complete(url, prompt));
    await forget(url);
    const second = await complete(url, prompt);
    const hits = await metric(url, "vllm:external_prefix_cache_hits_total");
    if (hits === 0) throw new Error("nothing came back from LMCache after the engine had forgotten it");
    if (textOf(second) !== first) throw new Error("another text after the KV came back from LMCache");
    await agent.stop();
    return `${hits} tokens came back from LMCache after the engine forgot them, same text; ready after ${agent.startSeconds.toFixed(0)} s, no process left, its server included`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

/** Empties the engine's own cache; waits until it has no request. */
async function forget(url: string): Promise<void> {
  const reply = await fetch(`${url}/reset_prefix_cache`, { method: "POST" });
  if (reply.status !== 200) throw new Error(`reset_prefix_cache answered ${reply.status}`);
}

const ASK_PREFILL = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

/** The two legs as cgn's router sends them. `between` may spoil what prefill answered. */
async function handOver(
  prefill: string,
  decode: string,
  prompt: string,
  id: string,
  between: (params: Record<string, unknown>) => Record<string, unknown> = (params) => params,
): Promise<string> {
  const first = await complete(prefill, prompt, { max_tokens: 1, kv_transfer_params: ASK_PREFILL }, id);
  const params = first.kv_transfer_params;
  if (params === undefined || params === null) throw new Error("prefill answered without kv_transfer_params");
  return textOf(await complete(decode, prompt, { kv_transfer_params: between(params) }, id));
}

async function runPair(
  name: string,
  engine: Pick<VllmEngine, "offload" | "lmcache">,
  requests: number,
  places: Places,
): Promise<string> {
  const expected = await plainTexts(places);
  const [p = 0, d = 0, dead = 0] = await freePorts(3);
  const [prefill, decode] = [`http://127.0.0.1:${p}`, `http://127.0.0.1:${d}`];
  const pair: VllmEngine[] = [
    { port: p, role: "prefill", ...engine },
    { port: d, role: "decode", ...engine },
  ];
  const agent = await startAgent(name, toml(places, pair), places, ENV);
  try {
    let same = 0;
    for (const [i, prompt] of prompts(requests).entries()) {
      const text = await handOver(prefill, decode, prompt, `${name}-${i}`);
      if (text === expected[i]) same++;
    }
    if (same < requests) throw new Error(`${same} of ${requests} texts are those of one plain engine`);
    const pulled = await metric(decode, "vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"');
    if (pulled === 0) throw new Error("decode pulled no token over NIXL");
    const lost = await loseOne(
      prefill,
      decode,
      dead,
      `${name}-lost`,
      prompts(requests + 1)[requests]!,
      expected[requests]!,
    );
    const restored = engine.lmcache === undefined ? "" : await restoredBy(prefill, decode, name, expected[0]!);
    await agent.stop();
    return `${same} of ${requests} texts equal to one plain engine's, ${pulled} tokens pulled over NIXL, ${lost}${restored}; both ready after ${agent.startSeconds.toFixed(0)} s, no process left`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

/**
 * Hand over from a prefill worker that is gone. Decode computes the prompt itself or fails the request, by its policy; either
 * way the prompt must have its right text afterwards, when what decode's caches kept of it comes back.
 *
 * @param dead - a port where nobody listens
 */
async function loseOne(
  prefill: string,
  decode: string,
  dead: number,
  id: string,
  prompt: string,
  expected: string,
): Promise<string> {
  const gone = { remote_port: dead, remote_engine_id: "00000000-0000-0000-0000-000000000000" };
  const text = await handOver(prefill, decode, prompt, id, (params) => ({ ...params, ...gone })).catch(
    (error: Error) => {
      if (/answered 500/.test(error.message)) return undefined;
      throw error;
    },
  );
  if (text !== undefined && text !== expected)
    throw new Error(`wrong text after prefill was lost: ${JSON.stringify(text)}`);
  for (const turn of ["once", "again"]) {
    await forget(decode);
    const own = textOf(await complete(decode, prompt));
    if (own !== expected)
      throw new Error(`asked ${turn} after prefill was lost, decode has a wrong text: ${JSON.stringify(own)}`);
  }
  return text === undefined ? "a lost prefill fails its request alone" : "a lost prefill computed again";
}

/** Both engines forget; the same prompt again must find its KV in LMCache on the prefill side. */
async function restoredBy(prefill: string, decode: string, name: string, expected: string): Promise<string> {
  const before = await metric(prefill, "vllm:external_prefix_cache_hits_total");
  await forget(prefill);
  await forget(decode);
  const text = await handOver(prefill, decode, prompts(1)[0]!, `${name}-again`);
  const hits = (await metric(prefill, "vllm:external_prefix_cache_hits_total")) - before;
  if (hits === 0) throw new Error("nothing came back from LMCache to the prefill engine");
  if (text !== expected) throw new Error("another text after the KV came back from LMCache");
  return `, ${hits} tokens came back from LMCache to the prefill engine`;
}

/** What the router predicts of a real engine's cache, beside what the engine then reports. */
async function runPrediction(places: Places): Promise<string> {
  const vllm = join(places.pin(VLLM), "bin", "vllm");
  const env = { ...ENV, VLLM_CPU_OMP_THREADS_BIND: "0" };
  const chats = { requests: 300, concurrency: 4, blocks: 90, seed: 1, seconds: 240 };
  const seen = await predictLive({
    vllm,
    model: places.model("smollm2"),
    log: places.log("live-prediction"),
    env,
    ...chats,
  });
  const said = `${seen.exact} of ${seen.requests} predictions of cached tokens exact, ${seen.explained} off by an event still on its way`;
  const unexplained = seen.requests - seen.exact - seen.explained;
  if (unexplained > 0)
    throw new Error(`${said}, ${unexplained} unexplained: ${JSON.stringify(seen.missed.slice(0, 3))}`);
  const least = Math.ceil(0.99 * seen.requests);
  if (seen.exact < least) throw new Error(`${said}; at least ${least} must be exact`);
  return `${said}${seen.missed.map(({ predicted, reported, why }) => `; ${predicted} predicted, ${reported} reported: ${why}`).join("")}`;
}

/** vLLM on a CPU. Each takes one to four minutes on two cores. */
export const VLLM_RUNS: readonly Scenario[] = [
  {
    name: "vllm-none",
    about: "one engine; its texts are what pairs are compared with",
    pins: [VLLM],
    minutes: 2,
    cells: ["vllm/none/both/cpu"],
    run: runPlain,
  },
  {
    name: "vllm-lmcache",
    about: "LMCache server beside one engine",
    pins: [VLLM],
    minutes: 2,
    cells: ["vllm/lmcache/both/lmcache-mp-cpu"],
    run: runLmcache,
  },
  {
    name: "vllm-nixl-pair",
    about: "prefill and decode over NIXL",
    pins: [VLLM],
    minutes: 4,
    cells: ["vllm/nixl/prefill/cpu", "vllm/nixl/decode/cpu"],
    run: (places) => runPair("vllm-nixl-pair", { offload: "nixl" }, REQUESTS, places),
  },
  {
    name: "vllm-multi-pair",
    about: "prefill and decode over NIXL, each with an LMCache server (MultiConnector)",
    pins: [VLLM],
    minutes: 5,
    cells: ["vllm/lmcache/prefill/lmcache-mp-cpu", "vllm/lmcache/decode/lmcache-mp-cpu"],
    run: (places) => runPair("vllm-multi-pair", { offload: "lmcache", lmcache: LMCACHE }, FEWER, places),
  },
  {
    name: "live-prediction",
    about: "random chats through the router: predicted against reported cached tokens",
    pins: [VLLM],
    minutes: 6,
    cells: ["vllm/none/both/cpu"],
    run: runPrediction,
  },
];
